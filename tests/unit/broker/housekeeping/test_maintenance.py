"""Maintenance of one topic with many subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.broker.loop import slices
from magnetar.cursor.cursor import Cursor
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policy.values import RetentionPolicies
from magnetar.sim.cluster import NAMESPACE, Cluster
from tests.unit.broker.loop.test_slices import turns_taken

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from magnetar.ledger.store import OnDurable

SUBSCRIPTIONS = 30
ITEMS = 4
"""Of a slice."""

EVICTION = {"backlogQuotaDefaultLimitBytes": 1, "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction"}


def stage(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A topic with a message that no subscription has acknowledged and that exceeds the TTL and the quota."""
    monkeypatch.setattr(slices, "SLICE_ITEMS_MAX", ITEMS)
    cluster = Cluster(settings={"ttlDurationDefaultInSeconds": 10, **EVICTION})
    topic = cluster.topic()
    for number in range(SUBSCRIPTIONS):
        topic.create_subscription(f"s{number}", topic.log.before_first())
    producer = cluster.client()
    producer.produce(name="p")
    producer.send("old", first=0)
    cluster.settle()
    cluster.loop.advance(60)
    return cluster


def backlogs(cluster: Cluster) -> list[int]:
    return [subscription.backlog for subscription in cluster.topic().subscriptions.values()]


@pytest.mark.parametrize(
    ("work", "left"),
    [
        (Maintenance.measure, 1),
        (Maintenance.trim, 1),
        (Maintenance.expire, 0),
        (Maintenance.check_backlogs, 0),
    ],
)
def test_a_topic_with_many_subscriptions_is_tended_in_slices(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[Maintenance], Coroutine[None, None, None]], left: int
) -> None:
    cluster = stage(monkeypatch)
    maintenance = Maintenance(cluster.environment, cluster.topics)
    assert turns_taken(cluster, work(maintenance)) >= SUBSCRIPTIONS // ITEMS
    assert backlogs(cluster) == [left] * SUBSCRIPTIONS


@pytest.mark.parametrize("work", [Maintenance.expire, Maintenance.check_backlogs])
def test_a_subscription_that_is_deleted_between_two_slices_does_not_end_the_round(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[Maintenance], Coroutine[None, None, None]]
) -> None:
    cluster = stage(monkeypatch)
    topic = cluster.topic()
    doomed = topic.subscriptions[f"s{SUBSCRIPTIONS - 2}"]
    cluster.loop.create_task(work(Maintenance(cluster.environment, cluster.topics)))
    cluster.loop.call_soon(topic.delete_subscription, doomed, lambda _: None)
    cluster.loop.spin()
    assert backlogs(cluster) == [0] * (SUBSCRIPTIONS - 1)
    assert doomed.backlog == 1


def test_a_trim_writes_what_changed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = stage(monkeypatch)
    topic = cluster.topic()
    changed = topic.subscriptions["s7"]

    def written() -> dict[str, int]:
        cursors = (subscription.cursor for subscription in topic.subscriptions.values())
        return {
            cursor.name: cursor.sizes.checkpoint_bytes_written + cursor.sizes.delta_bytes_written for cursor in cursors
        }

    flushed: list[str] = []
    flush = Cursor.flush

    def noted(cursor: Cursor, on_durable: OnDurable) -> None:
        flushed.append(cursor.name)
        flush(cursor, on_durable)

    monkeypatch.setattr(Cursor, "flush", noted)
    before = written()

    async def work() -> None:
        await changed.skip(1)
        await Maintenance(cluster.environment, cluster.topics).trim()

    cluster.loop.create_task(work())
    cluster.settle()
    assert flushed == ["s7"]
    assert [name for name, size in written().items() if size > before[name]] == ["s7"]


def test_a_retention_that_is_set_during_a_trim_is_kept() -> None:
    cluster = Cluster(ledger_config=ManagedLedgerConfig(max_entries_per_ledger=1, min_rollover_ms=0), prompt=False)
    producer = cluster.client()
    producer.produce(name="p")
    cluster.commit()
    for number in range(3):
        producer.send(str(number), first=number)
        cluster.commit()
        cluster.commit()
    first = cluster.topic().ledger.first_position
    cluster.loop.create_task(Maintenance(cluster.environment, cluster.topics).trim())
    cluster.loop.spin()
    assert cluster.store.pending, "the trim waits until all claims on its entries are durable"
    retained = RetentionPolicies(retentionTimeInMinutes=1, retentionSizeInMB=-1)
    cluster.do(
        lambda: cluster.resources.namespaces.update(
            NAMESPACE, lambda old: old.model_copy(update={"retention_policies": retained})
        )
    )
    while cluster.store.pending:
        cluster.commit()
    assert cluster.topic().ledger.first_position == first
