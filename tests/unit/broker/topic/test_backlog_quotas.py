"""Backlog quotas and TTL with manual clocks; all messages are published at time 0."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.limits import Limit
from magnetar.broker.housekeeping.clock_watch import GRACE_S
from magnetar.broker.housekeeping.maintenance import Maintenance
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.policies import Policies
from magnetar.sim.cluster import NAMESPACE, Client, Cluster, entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

HOLD = pb.ServerError.ProducerBlockedQuotaExceededError
REFUSE = pb.ServerError.ProducerBlockedQuotaExceededException
ENTRY_BYTES = len(entry("0"))
ADMITTED = ["PRODUCER_SUCCESS"]
EVICT: dict[str, Any] = {"backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction"}


def stage(targets: tuple[str, ...] = (), **settings: Any) -> Cluster:  # noqa: ANN401 - any setting
    """Return a cluster with ten unacknowledged messages of a subscription, in ledgers of four."""
    config = ManagedLedgerConfig(max_entries_per_ledger=4, min_rollover_ms=0)
    cluster = Cluster(targets=targets, settings=settings, ledger_config=config)
    cluster.client().subscribe(permits=0)
    producer = cluster.client()
    producer.produce(name="p")
    for number in range(10):
        producer.send(str(number), first=number)
    producer.names()
    return cluster


def run(
    cluster: Cluster, work: Callable[[Maintenance], Coroutine[Any, Any, None]], maintenance: Maintenance | None = None
) -> None:
    """Run one round of maintenance."""
    task = cluster.loop.start(work(maintenance or Maintenance(cluster.environment, cluster.topics)))
    cluster.settle()
    task.result()


def newcomer(cluster: Cluster) -> Client:
    client = cluster.client()
    client.produce(name="late")
    return client


def backlog(cluster: Cluster) -> int:
    return cluster.subscription().backlog


@pytest.mark.parametrize(
    ("limit", "least"), [(Limit.BACKLOG_SIZE, ENTRY_BYTES), (Limit.BACKLOG_AGE, 60)], ids=["size", "age"]
)
@pytest.mark.parametrize("policy", ["producer_request_hold", "producer_exception", "consumer_backlog_eviction"])
def test_a_quota_that_acts_is_a_hit_of_its_limit(limit: Limit, least: int, policy: str) -> None:
    settings: dict[str, Any] = {limit.value: least, "backlogQuotaDefaultRetentionPolicy": policy}
    cluster = stage(**settings)
    counts = cluster.environment.limit_hits.counts
    assert counts()[limit] == 0
    cluster.loop.advance(61)
    maintenance = Maintenance(cluster.environment, cluster.topics)
    for _ in range(3):
        run(cluster, Maintenance.check_backlogs, maintenance)
    assert counts()[limit] == 1  # nothing is left to close or evict after the first time
    if policy != "consumer_backlog_eviction":
        newcomer(cluster)
        assert counts()[limit] == 2


@pytest.mark.parametrize(("policy", "code"), [("producer_request_hold", HOLD), ("producer_exception", REFUSE)])
def test_no_producer_is_let_in_beyond_the_size(policy: str, code: int) -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=10 * ENTRY_BYTES, backlogQuotaDefaultRetentionPolicy=policy)
    [refusal] = newcomer(cluster).take("ERROR")
    assert (refusal.error, "destination_storage" in refusal.message) == (code, True)


def test_a_backlog_within_the_size_is_nobodys_business() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=10 * ENTRY_BYTES + 1)
    run(cluster, Maintenance.check_backlogs)
    assert cluster.clients[1].names() == []
    assert newcomer(cluster).names() == ADMITTED


def test_producers_are_let_in_again_when_the_backlog_is_gone() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=ENTRY_BYTES)
    assert newcomer(cluster).names() == ["ERROR"]
    cluster.do(partial(cluster.loop.create_task, cluster.subscription().skip(10)))
    assert newcomer(cluster).names() == ADMITTED


def test_those_who_publish_are_sent_away_behind_their_receipts_and_may_come_again() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=ENTRY_BYTES)
    producer = cluster.clients[1]
    cluster.prompt = False
    producer.send("taken", first=10)
    cluster.loop.start(Maintenance(cluster.environment, cluster.topics).check_backlogs())
    producer.send("dropped", first=11)
    cluster.prompt = True
    cluster.settle()
    assert producer.names() == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    cluster.do(partial(cluster.loop.create_task, cluster.subscription().skip(11)))
    producer.produce(name="p")
    producer.send("dropped", first=11)
    assert producer.names() == [*ADMITTED, "SEND_RECEIPT"]
    assert backlog(cluster) == 1


def test_a_topic_that_is_unloaded_meanwhile_stays_closed_to_entries() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=ENTRY_BYTES)
    topic = cluster.topic()
    cluster.prompt = False
    cluster.loop.start(Maintenance(cluster.environment, cluster.topics).check_backlogs())
    cluster.loop.call_soon(cluster.topics.unload, topic.name)
    cluster.loop.spin()
    cluster.prompt = True
    cluster.settle()
    assert topic.is_closing


def test_entries_not_yet_in_deduplication_state_do_not_count() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=ENTRY_BYTES, brokerDeduplicationEnabled=True)
    cluster.do(partial(cluster.loop.create_task, cluster.subscription().skip(10)))
    cursor = cluster.topic().deduplication.cursor
    assert cursor is not None
    assert cursor.state.backlog(cluster.topic().ledger.last_confirmed_entry) == 10
    assert newcomer(cluster).names() == ADMITTED


@pytest.mark.parametrize(("policy", "code"), [("producer_request_hold", HOLD), ("producer_exception", REFUSE)])
def test_no_producer_is_let_in_beyond_the_age(policy: str, code: int) -> None:
    cluster = stage(backlogQuotaDefaultLimitSecond=60, backlogQuotaDefaultRetentionPolicy=policy)
    cluster.loop.advance(59)
    run(cluster, Maintenance.check_backlogs)
    assert newcomer(cluster).names() == ADMITTED
    cluster.loop.advance(1)
    run(cluster, Maintenance.check_backlogs)
    [refusal] = newcomer(cluster).take("ERROR")
    assert (refusal.error, "message_age" in refusal.message) == (code, True)


def test_eviction_by_size_keeps_nine_tenths_of_the_limit() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=10 * ENTRY_BYTES, **EVICT)
    run(cluster, Maintenance.check_backlogs)
    assert backlog(cluster) == 9
    assert cluster.subscription().expired == 1
    assert newcomer(cluster).names() == ADMITTED


def test_eviction_by_size_takes_no_entry_that_is_not_durable() -> None:
    cluster = stage(backlogQuotaDefaultLimitBytes=2 * ENTRY_BYTES, **EVICT)
    producer, written = cluster.clients[1], cluster.topic().ledger.last_confirmed_entry
    cluster.prompt = False
    for number in range(10, 20):
        producer.send(str(number), first=number)
    assert cluster.topic().ledger.last_position > written
    cluster.loop.start(Maintenance(cluster.environment, cluster.topics).check_backlogs())
    assert cluster.subscription().cursor.state.mark_delete_position == written
    cluster.prompt = True
    cluster.settle()
    assert backlog(cluster) == 10


def test_eviction_by_age_takes_what_is_too_old() -> None:
    cluster = stage(backlogQuotaDefaultLimitSecond=60, **EVICT)
    cluster.loop.advance(60)
    run(cluster, Maintenance.check_backlogs)
    assert (backlog(cluster), cluster.subscription().expired) == (0, 10)


def test_entries_missing_in_another_cluster_are_never_evicted() -> None:
    cluster = stage(("jfk",), backlogQuotaDefaultLimitBytes=ENTRY_BYTES, **EVICT)
    run(cluster, Maintenance.check_backlogs)
    assert backlog(cluster) == 0
    assert cluster.topic().replicators["jfk"].lag.backlog == 10


def test_a_link_that_lags_counts() -> None:
    cluster = stage(("jfk",), backlogQuotaDefaultLimitBytes=ENTRY_BYTES)
    cluster.do(partial(cluster.loop.create_task, cluster.subscription().skip(10)))
    assert newcomer(cluster).names() == ["ERROR"]


def test_messages_expire_for_subscriptions_and_not_for_links() -> None:
    cluster = stage(("jfk",), ttlDurationDefaultInSeconds=60)
    cluster.loop.advance(60)
    run(cluster, Maintenance.expire)
    assert backlog(cluster) == 10
    cluster.loop.advance(0.001)
    run(cluster, Maintenance.expire)
    assert (backlog(cluster), cluster.subscription().expired) == (0, 10)
    assert cluster.topic().replicators["jfk"].lag.backlog == 10


def test_a_topics_own_time_to_live_goes_first() -> None:
    cluster = stage(ttlDurationDefaultInSeconds=60)
    topic = cluster.topic()
    cluster.do(partial(cluster.resources.topic_policies.change, topic.name, messageTTLInSeconds=0))
    cluster.loop.advance(61)
    run(cluster, Maintenance.expire)
    assert backlog(cluster) == 10
    cluster.do(partial(cluster.resources.topic_policies.change, topic.name, messageTTLInSeconds=None))
    run(cluster, Maintenance.expire)
    assert backlog(cluster) == 0


def test_expired_messages_stay_expired() -> None:
    cluster = stage(ttlDurationDefaultInSeconds=60)
    cluster.loop.advance(61)
    run(cluster, Maintenance.expire)
    cluster.loop.advance(1)
    cluster.settle()
    cluster.crash()
    assert backlog(cluster) == 0


def test_a_clock_that_jumps_expires_and_deletes_nothing_until_it_is_believed() -> None:
    retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}
    cluster = stage(ttlDurationDefaultInSeconds=3600)
    cluster.do(
        lambda: cluster.resources.namespaces.update(
            NAMESPACE, lambda found: Policies.model_validate({**found.model_dump(), "retention_policies": retention})
        )
    )
    ledger = cluster.topic().ledger
    maintenance = Maintenance(cluster.environment, cluster.topics)
    cluster.do(partial(cluster.subscription().acknowledge_through, ledger.position_at(ledger.first_position, 3)))
    cluster.clock.jumped_s = 365 * 86_400.0
    run(cluster, Maintenance.expire, maintenance)
    run(cluster, Maintenance.trim, maintenance)
    assert (backlog(cluster), ledger.entries) == (6, 10)
    cluster.loop.advance(GRACE_S + 1)  # the messages have been here for that long, independent of the wall clock
    run(cluster, Maintenance.expire, maintenance)
    run(cluster, Maintenance.trim, maintenance)
    assert (backlog(cluster), ledger.entries) == (0, 0)
