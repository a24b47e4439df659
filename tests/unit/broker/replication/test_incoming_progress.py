"""A large progress marker is applied in several turns of the event loop, in order, and receipted at the end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DiskFullError, MagnetarError, StorageError
from magnetar.base.position import Position
from magnetar.broker.loop import turns
from magnetar.broker.replication.progress import incoming_progress
from magnetar.broker.replication.progress.incoming_progress import PART_ITEMS_MAX
from magnetar.geo.progress.codec import encode_markers
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.broker.topic.topic import Topic
    from magnetar.geo.progress.epochs import Epoch

ENTRIES = 10 * PART_ITEMS_MAX
"""Every other one is acknowledged: five parts."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A topic with a replicated subscription in a cluster with one piece of work per turn."""
    cluster = Cluster(targets=("jfk",))
    client = cluster.client()
    client.produce()
    client.send(*map(str, range(ENTRIES)))
    client.subscribe(replicate_subscription_state=True, permits=0)
    cluster.settle()
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 0)
    return cluster


class Sent:
    """Markers passed to the topic, and their results."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.heard: list[tuple[str, str]] = []

    def say(self, name: str, entry_ids: Iterable[int], epoch: Epoch | None = None) -> None:
        """Pass a marker that acknowledges entries to the topic, in this turn."""
        keeper = self.topic.subscriptions["worker"].progress
        assert keeper is not None
        ledger_id = self.topic.ledger.first_position.ledger_id
        state = SubscriptionProgress("worker", keeper.state.starts(), epoch or keeper.state.epoch)
        for entry_id in entry_ids:
            state.origin("ewr").acknowledge(Position(ledger_id, entry_id - 1), Position(ledger_id, entry_id))
        (payload,) = encode_markers("jfk", [state])

        def done(error: MagnetarError | None) -> None:
            self.heard.append((name, "done" if error is None else str(error)))

        self.topic.progress.receive("jfk", payload, done, lambda error: self.heard.append((name, str(error))))


def backlog(topic: Topic) -> int:
    return topic.subscriptions["worker"].backlog


def in_turns(cluster: Cluster, sent: Sent, turns: int) -> list[int]:
    """Return the backlog after each of ``turns`` turns of the loop."""
    seen: list[int] = []

    def look() -> None:
        seen.append(backlog(sent.topic))
        if len(seen) < turns:
            cluster.loop.call_soon(look)

    cluster.loop.call_soon(sent.say, "large", range(1, ENTRIES, 2))
    cluster.loop.call_soon(look)
    cluster.settle()
    return seen


def test_no_turn_applies_more_than_a_part_and_the_receipt_comes_last(cluster: Cluster) -> None:
    topic = cluster.topic()
    sent = Sent(topic)
    seen = in_turns(cluster, sent, 20)
    steps = [before - after for before, after in pairwise([ENTRIES, *seen])]
    assert sorted(steps) == [0] * 15 + [PART_ITEMS_MAX] * 5, "a turn may be the dispatchers'"
    assert sent.heard == [("large", "done")]


def test_a_later_marker_waits_for_its_turn(cluster: Cluster) -> None:
    topic = cluster.topic()
    sent = Sent(topic)

    def both() -> None:
        sent.say("large", range(1, ENTRIES, 2))
        sent.say("small", [2])

    cluster.loop.call_soon(both)
    cluster.settle()
    assert sent.heard == [("large", "done"), ("small", "done")]
    assert backlog(topic) == ENTRIES // 2 - 1


def test_too_many_markers_are_refused_until_others_were_applied(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_progress, "MARKERS_MAX", 2)
    sent = Sent(cluster.topic())

    def flood() -> None:
        sent.say("large", range(1, ENTRIES, 2))
        sent.say("second", [2])
        sent.say("third", [4])

    cluster.loop.call_soon(flood)
    cluster.settle()
    (refused, *done) = sent.heard
    assert refused[0] == "third"
    assert "2 progress markers wait" in refused[1]
    assert done == [("large", "done"), ("second", "done")]
    cluster.loop.call_soon(sent.say, "again", [4])
    cluster.settle()
    assert sent.heard[-1] == ("again", "done")


def test_a_marker_that_fails_half_way_is_refused_and_gets_no_receipt(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic()
    sent = Sent(topic)
    keeper = topic.subscriptions["worker"].progress
    assert keeper is not None
    apply = keeper.apply

    def fail(incoming: SubscriptionProgress) -> object:
        if backlog(topic) < ENTRIES - PART_ITEMS_MAX:
            message = "no space left"
            raise StorageError(message)
        return apply(incoming)

    monkeypatch.setattr(keeper, "apply", fail)
    in_turns(cluster, sent, 1)
    assert sent.heard == [("large", "no space left")]
    monkeypatch.undo()
    cluster.loop.call_soon(sent.say, "again", range(1, ENTRIES, 2))
    cluster.settle()
    assert sent.heard[1:] == [("again", "done")]
    assert backlog(topic) == ENTRIES // 2


def test_a_topic_that_is_closed_meanwhile_gives_no_receipt(cluster: Cluster) -> None:
    topic = cluster.topic()
    sent = Sent(topic)

    def close() -> None:
        sent.say("large", range(1, ENTRIES, 2))
        topic.progress.close()

    cluster.loop.call_soon(close)
    cluster.settle()
    assert sent.heard == []


def test_a_newer_epoch_is_applied_whole(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts, messages would be delivered that the next part acknowledges."""
    monkeypatch.setattr(turns, "TURN_ITEMS_MAX", 1)  # one at once
    topic = cluster.topic()
    sent, seen = Sent(topic), list[int]()
    keeper = topic.subscriptions["worker"].progress
    assert keeper is not None
    cluster.loop.elapsed_s += 2 * turns.PAUSE_S  # a new turn begins with the marker
    cluster.loop.call_soon(sent.say, "sought", range(1, ENTRIES, 2), keeper.state.epoch.raised_by("jfk"))
    cluster.loop.call_soon(lambda: seen.append(backlog(topic)))
    cluster.settle()
    assert seen == [ENTRIES // 2]


def test_no_marker_is_applied_while_a_crash_would_bring_trimmed_entries_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, metadata = cluster.topic(), cluster.metadata
    sent = Sent(topic)
    topic.ledger._listed.drop([cluster.store.create()])
    with monkeypatch.context() as disk_full:
        error = DiskFullError("metadata store: database or disk is full")
        disk_full.setattr(metadata, "_submit", lambda _transaction: metadata._failed(error))
        cluster.loop.call_soon(sent.say, "refused", [1])
        cluster.settle()
        assert sent.heard == [("refused", f"{topic.name}: a trim is not durable")]
    assert topic.ledger.is_trim_unstored
    assert backlog(topic) == ENTRIES
    cluster.loop.call_soon(sent.say, "applied", [1])
    cluster.settle()
    assert sent.heard[1:] == [("applied", "done")]
    assert not topic.ledger.is_trim_unstored
    assert backlog(topic) == ENTRIES - 1
