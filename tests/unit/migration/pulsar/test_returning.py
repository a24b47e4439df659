"""A topic of a fake cluster of Magnetar on its way back to a fake Apache Pulsar."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.migration.pulsar.returning import End, PulsarReturn
from magnetar.migration.sides import source_of, target_of
from magnetar.migration.switching.fence import Link, TopicState
from magnetar.wire.entries.ack_set import int_to_words, words_to_int
from magnetar.wire.message_id import position_of
from tests.unit.migration.pulsar.fake_pulsar import CLIENT, EU
from tests.unit.migration.pulsar.two_logs import PULSAR, TARGET, Log, TwoLogs, metadata, random_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.migration.pulsar.topic_log import TopicLog
    from magnetar.wire.proto import pulsar_api_pb2 as pb

BILLING = "billing/all of it"
"""A name that Apache Pulsar encodes."""


def mark_of(state: IntervalSet) -> Position:
    return next(iter(state)).upper


@dataclass
class Cluster(httpx.BaseTransport):
    """One of the clusters, with its log and the acknowledgements of its subscriptions."""

    log: Log
    cursors: dict[str, IntervalSet] = field(default_factory=dict)
    partly: dict[Position, int] = field(default_factory=dict)
    consumers: list[dict[str, Any]] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """Requests that change something."""
    is_missing: bool = False
    stored: IntervalSet = field(default_factory=IntervalSet)
    """The acknowledgements that are stored."""
    losses: int = 0
    """Number of unloads that lose the others."""
    writes_markers: bool = False
    """Whether each unload is followed by a marker in the log."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_missing:
            return httpx.Response(404, json={"reason": "Topic not found"})
        answers: dict[str, Callable[[], Any]] = {
            "internalStats": self._internal_stats,
            "stats": self._stats,
            "acknowledgements": self._acknowledgements,
        }
        name = request.url.path.rpartition("/")[2]
        if name in answers:
            return httpx.Response(200, content=json.dumps(answers[name]()))
        self.changes.append(name)
        if name == "unload" and self.writes_markers:
            self.log.append(metadata(marker=True))
        if name == "unload" and self.losses:
            self.losses -= 1
            self.cursors[BILLING] = self.stored.copy()
        elif name == "unload":
            self.stored = self.cursors[BILLING].copy()
        else:
            start = json.loads(request.content)
            first = Position(5, 0) if start == "earliest" else Position(start["ledgerId"], max(0, start["entryId"]))
            before = first._replace(entry_id=first.entry_id - 1)
            self.cursors[BILLING] = IntervalSet.from_pairs([(EARLIEST, before)])
        return httpx.Response(204)

    def left(self, name: str) -> int:
        return sum(position not in self.cursors[name] for position in self.log.ids)

    def _stats(self) -> dict[str, Any]:
        subscriptions = {
            name: {"msgBacklog": self.left(name), "isDurable": True, "consumers": self.consumers}
            for name in self.cursors
            if not name.startswith("magnetar.")
        }
        return {"publishers": [], "subscriptions": subscriptions}

    def _internal_stats(self) -> dict[str, Any]:
        cursors = {}
        for name, state in self.cursors.items():
            ranges = ",".join(f"({lower}..{upper}]" for lower, upper in list(state)[1:])
            found = {"markDeletePosition": str(mark_of(state)), "individuallyDeletedMessages": f"[{ranges}]"}
            cursors[quote(name, safe="")] = found
        ledgers = [{"ledgerId": self.log.ledger, "entries": 0}]
        return {"lastConfirmedEntry": str(self.log.end), "ledgers": ledgers, "cursors": cursors}

    def _acknowledgements(self) -> dict[str, Any]:
        state = self.cursors[BILLING]
        ranges = [[lower.ledger_id, lower.entry_id + 1, upper.entry_id] for lower, upper in list(state)[1:]]
        batches = {str(position): int_to_words(bits) for position, bits in self.partly.items()}
        return {"markDeletePosition": str(mark_of(state)), "ranges": ranges, "batches": batches}


@dataclass
class Brokers:
    """The brokers of a cluster."""

    cluster: Cluster
    refusal: str = ""
    parts: dict[Position, tuple[int, int]] = field(default_factory=dict)
    starts: list[Position] = field(default_factory=list)
    """Where logs were read from their beginning."""

    def read_on(self, topic: str, log: TopicLog) -> str:
        assert topic == str(EU)
        if log.end == log.start:
            self.starts.append(log.start)
        self.cluster.log.read_on(log)
        return ""

    def acknowledge(self, topic: str, subscription: str, through: Position, ids: Sequence[pb.MessageIdData]) -> str:
        assert (topic, subscription) == (str(EU), BILLING)
        if self.refusal:
            return self.refusal
        state = self.cluster.cursors[subscription]
        if through > mark_of(state):
            state.add(EARLIEST, through)
        for each in ids:
            position = position_of(each)
            if each.ack_set:
                self.parts[position] = (words_to_int(list(each.ack_set)), each.batch_size)
            else:
                state.add(position._replace(entry_id=position.entry_id - 1), position)
        return ""


class Return:
    """The way back of one topic."""

    def __init__(self, logs: TwoLogs) -> None:
        self.logs = logs
        self.pulsar, self.target = Cluster(logs.pulsar), Cluster(logs.target)
        self.pulsar.cursors[f"magnetar.repl.{TARGET}"] = logs.pulsar.acknowledged(logs.pulsar.ids.values())
        here = End(PULSAR, source_of(AdminClient("http://legacy:8080", transport=self.pulsar)))
        there = End(TARGET, target_of(AdminClient("http://ewr:8080", transport=self.target)))
        self.brokers, self.readers = Brokers(self.pulsar), Brokers(self.target)
        self.way = PulsarReturn(here, there, self.brokers, self.readers)
        self.link: Link | None = Link(0)

    def prepare(self) -> None:
        self.way.prepare(str(EU), None)  # type: ignore[arg-type]  # it is not used

    def missing(self) -> str:
        def look(*, digests: bool = False) -> TopicState:
            assert not digests
            return TopicState(links={} if self.link is None else {PULSAR: self.link})

        return self.way.missing(str(EU), None, look)  # type: ignore[arg-type]  # it is not used

    @property
    def unacknowledged(self) -> set[int]:
        """The entries that are left in Apache Pulsar."""
        state = self.pulsar.cursors[BILLING]
        return {number for position, number in self.logs.pulsar.ids.items() if position not in state}


@pytest.fixture
def back() -> Return:
    """Four messages of Apache Pulsar, two of the target; the first and the fifth are acknowledged."""
    logs = TwoLogs()
    for _ in range(4):
        logs.publish_in_pulsar()
    logs.carry_all()
    found = Return(logs)
    found.pulsar.cursors[BILLING] = logs.pulsar.acknowledged([0])
    for _ in range(2):
        logs.publish_in_target()
    logs.carry_all()
    found.target.cursors[BILLING] = logs.target.acknowledged([0, 4])
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_target_and_apache_pulsar_have_the_same_state(seed: int) -> None:
    rng = Random(seed)
    logs = random_logs(rng)
    back = Return(logs)
    both = set(logs.pulsar.ids.values()) - logs.withheld
    now = {each for each in both if rng.random() < 0.6}
    before = now | {each for each in both if rng.random() < rng.choice((0.0, 0.3))}  # some are sought back
    if rng.random() < 0.9:
        back.pulsar.cursors[BILLING] = logs.pulsar.acknowledged(each for each in before if rng.random() < 0.8)
    back.target.cursors[BILLING] = logs.target.acknowledged(now)
    left = {logs.target.position_of(each) for each in both - now if each in logs.batches}
    back.target.partly = {position: 5 for position in left if rng.random() < 0.5}
    back.prepare()
    if "resetcursor" in back.pulsar.changes:
        assert back.unacknowledged >= both - now
    reason = back.missing()
    if "and legacy has" in reason:
        assert back.brokers.starts[-1] > EARLIEST, "an entry of the target was sought back that all had acknowledged"
        return
    assert reason == ""
    assert back.unacknowledged - logs.withheld == both - now
    assert back.brokers.parts == {
        logs.pulsar.position_of(logs.target.ids[position]): (5, 8) for position in back.target.partly
    }
    assert back.pulsar.changes[-1] == "unload"
    assert back.missing() == "", "a repetition changes nothing"
    assert back.unacknowledged - logs.withheld == both - now


@pytest.mark.parametrize("losses", [0, 1, 2])
def test_acknowledgements_that_a_close_loses_are_set_again(back: Return, losses: int) -> None:
    back.prepare()
    back.pulsar.stored, back.pulsar.losses = back.pulsar.cursors[BILLING].copy(), losses
    assert [back.missing() for _ in range(losses)] == ["legacy has lost acknowledgements"] * losses
    assert back.missing() == ""
    assert back.unacknowledged == {1, 2, 3, 5}
    assert back.pulsar.stored == back.pulsar.cursors[BILLING]


def test_a_marker_that_follows_an_unload_is_no_lost_acknowledgement(back: Return) -> None:
    back.prepare()
    back.pulsar.writes_markers = True
    assert back.missing() == ""
    assert back.pulsar.changes == ["unload"]
    assert back.unacknowledged == {1, 2, 3, 5}


def test_entries_on_their_way_are_awaited(back: Return) -> None:
    back.prepare()
    for back.link, reason in (
        (None, "an unknown number of entries are not confirmed by legacy"),
        (Link(3), "3 entries are not confirmed by legacy"),
        (Link(2, "too large"), "2 entries are not confirmed by legacy: the link is parked: too large"),
    ):
        assert back.missing() == reason
    assert back.pulsar.changes == []


def test_the_last_entries_are_read_when_the_topic_is_closed(back: Return) -> None:
    back.prepare()
    number = back.logs.publish_in_target()
    back.logs.carry_all()
    assert back.missing() == ""
    assert back.unacknowledged == {1, 2, 3, 5, number}


def test_both_logs_are_read_before_the_topic_is_closed(back: Return) -> None:
    assert back.missing() == "its logs were not read before it was closed"
    back.pulsar.cursors[f"magnetar.repl.{TARGET}"] = back.logs.pulsar.acknowledged([0])
    back.prepare()
    assert back.missing() == "A does not have all entries of legacy"


def test_a_topic_that_apache_pulsar_does_not_have_stays(back: Return) -> None:
    back.pulsar.is_missing = True
    back.prepare()
    back.pulsar.is_missing = False
    assert back.missing() == "it does not exist in legacy"


def test_a_client_in_apache_pulsar_delays_the_return(back: Return) -> None:
    back.prepare()
    back.pulsar.consumers = [CLIENT]
    assert back.missing() == "a client at 10.0.0.9:4242 is connected to legacy"
    back.pulsar.consumers = []
    back.logs.publish_in_pulsar()
    for _ in range(2):
        assert back.missing() == "a client has published to legacy meanwhile"


def test_a_subscription_that_only_apache_pulsar_has_is_named(back: Return) -> None:
    back.prepare()
    back.pulsar.cursors["old"] = back.pulsar.cursors[BILLING]
    assert back.missing() == "only legacy has the subscription old"


def test_a_new_subscription_is_created(back: Return) -> None:
    del back.pulsar.cursors[BILLING]
    back.prepare()
    assert back.missing() == ""
    assert back.unacknowledged == {1, 2, 3, 5}


def test_what_cannot_be_acknowledged_is_tried_again(back: Return) -> None:
    back.prepare()
    back.brokers.refusal = "no connection"
    assert back.missing() == f"{BILLING}: no connection"
    assert "unload" not in back.pulsar.changes
    back.brokers.refusal = ""
    assert back.missing() == ""


def test_a_subscription_that_is_sought_back_before_the_log_stays(back: Return) -> None:
    back.prepare()
    back.target.cursors[BILLING] = back.logs.target.acknowledged([])
    assert back.missing() == f"{BILLING}: it was sought back meanwhile"


def test_a_subscription_that_was_sought_back_goes_back(back: Return) -> None:
    back.target.cursors[BILLING] = back.logs.target.acknowledged([])
    back.prepare()
    assert back.brokers.starts == [Position(5, 0), EARLIEST]
    assert back.missing() == ""
    assert back.unacknowledged == {0, 1, 2, 3, 4, 5}
    assert back.pulsar.changes == ["resetcursor", "unload"]
