"""Last sequence ids of producers, compared with a reference that stores every message."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.base.errors import CorruptionError
from magnetar.base.position import EARLIEST, Position
from magnetar.broker.publish.sequence_ids import (
    NO_SEQUENCE_ID,
    SEQUENCE_ID_MAX,
    SequenceIds,
    Verdict,
    highest_of,
    judge,
)

HERE = Position(3, 4)
NAMES = ("a", "b", "ü")


@dataclass
class Twin:
    """The messages of one producer."""

    persisted: set[int] = field(default_factory=set)
    under_way: list[range] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    """For each message in flight, whether it was published in this cluster."""
    failed: bool = False
    lost: int | None = None
    """The first message that failed in the log; nothing after it becomes durable."""

    def verdict(self, messages: range) -> Verdict:
        if self.failed:
            return Verdict.UNKNOWN
        here = self.persisted.union(*self.under_way)
        newest = max(here, default=NO_SEQUENCE_ID)
        old = [message for message in messages if message <= newest]
        if not old:
            return Verdict.NEW
        return Verdict.DUPLICATE if len(old) == len(messages) else Verdict.OVERLAP


class SequenceIdsMachine(RuleBasedStateMachine):
    """Producers publish, writes succeed or fail, and the topic is reloaded from snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = SequenceIds()
        self.twins = {name: Twin() for name in NAMES}
        self.through = EARLIEST
        self.snapshots = [self.ids.checkpoint(self.through)]
        self.now = 0.0

    @rule(name=st.sampled_from(NAMES), first=st.integers(-20, 40), count=st.integers(1, 4))
    def publish(self, name: str, first: int, count: int) -> None:
        twin, messages = self.twins[name], range(first, first + count)
        verdict = self.ids.check(name, messages[0], messages[-1])
        assert verdict is twin.verdict(messages)
        if verdict is Verdict.NEW:
            self.ids.push(name, messages[-1])
            twin.under_way.append(messages)
            twin.own.append(True)

    @rule(name=st.sampled_from(NAMES), first=st.integers(-20, 40), count=st.integers(1, 4))
    def replicate(self, name: str, first: int, count: int) -> None:
        """Replicate messages, in no order relative to other links, whatever failed before."""
        twin, messages = self.twins[name], range(first, first + count)
        self.ids.push(name, messages[-1])
        twin.under_way.append(messages)
        twin.own.append(False)

    @rule(name=st.sampled_from(NAMES))
    def become_durable(self, name: str) -> None:
        twin = self.twins[name]
        if twin.under_way and twin.lost is None:
            messages, is_own = twin.under_way.pop(0), twin.own.pop(0)
            twin.persisted |= set(messages)
            self.settle(name, messages, durable=True, is_own=is_own)

    @rule(name=st.sampled_from(NAMES))
    def fail(self, name: str) -> None:
        twin = self.twins[name]
        if twin.under_way:
            messages, is_own = twin.under_way.pop(0), twin.own.pop(0)
            twin.failed, twin.lost = True, messages[-1]
            self.settle(name, messages, durable=False, is_own=is_own)

    @rule(name=st.sampled_from(NAMES))
    def refuse(self, name: str) -> None:
        """Refuse the newest message before it reaches the log."""
        twin = self.twins[name]
        if twin.under_way:
            messages, is_own = twin.under_way.pop(), twin.own.pop()
            twin.failed = True
            self.settle(name, messages, durable=False, is_own=is_own)

    def settle(self, name: str, messages: range, *, durable: bool, is_own: bool) -> None:
        self.now += 1
        self.ids.settle(name, messages[-1], self.now, durable=durable, is_own=is_own)
        twin = self.twins[name]
        if not twin.under_way:
            twin.failed, twin.lost = False, None

    @rule()
    def write_delta(self) -> None:
        if self.ids.changed:
            self.through = Position(1, self.through.entry_id + 1)
            self.snapshots.append(self.ids.delta(self.through))

    @rule()
    def write_checkpoint(self) -> None:
        self.snapshots = [self.ids.checkpoint(self.through)]

    @precondition(lambda self: not self.ids.changed)
    @rule()
    def restart(self) -> None:
        self.ids = SequenceIds()
        assert self.ids.load(self.snapshots, self.now) == self.through
        for twin in self.twins.values():
            twin.under_way, twin.own, twin.failed, twin.lost = [], [], False, None

    @invariant()
    def it_knows_what_is_durable(self) -> None:
        for name, twin in self.twins.items():
            assert self.ids.persisted(name) == max(twin.persisted, default=-1)
            assert self.ids.has_failed(name) == twin.failed

    @rule(producers_max=st.integers(0, 3))
    def show(self, producers_max: int) -> None:
        again = SequenceIds()
        again.load(self.snapshots, 0)
        shown, omitted = self.ids.last_snapshot(producers_max)
        expected = {name: again.persisted(name) for name in NAMES if name in again._persisted}
        assert shown.items() <= expected.items()
        assert (len(shown), omitted) == (min(producers_max, len(expected)), len(expected) - len(shown))


TestStory = SequenceIdsMachine.TestCase
TestStory.settings = settings(max_examples=100, stateful_step_count=40)


def known(*names: str, at: float = 0.0) -> SequenceIds:
    ids = SequenceIds()
    for name in names:
        ids.replay(name, 7, at)
    return ids


def remembered(ids: SequenceIds) -> dict[str, int]:
    """Return the sequence ids after a restart."""
    again = SequenceIds()
    again.load([ids.checkpoint(HERE)], 0)
    return {name: again.persisted(name) for name in again._persisted}


@pytest.mark.parametrize(
    ("lowest", "highest", "verdict"),
    [
        (8, 8, Verdict.NEW),
        (7, 7, Verdict.DUPLICATE),
        (5, 7, Verdict.DUPLICATE),
        (7, 8, Verdict.OVERLAP),
        (20, 30, Verdict.NEW),
    ],
)
def test_messages_are_compared_with_the_newest_that_is_here(lowest: int, highest: int, verdict: Verdict) -> None:
    assert judge(7, lowest, highest) is verdict


def test_the_end_of_a_batch_is_named_or_counted() -> None:
    assert highest_of(5, 9, 3) == 9
    assert highest_of(5, 0, 3) == 7
    assert highest_of(5, 0, 1) == highest_of(5, 0, 0) == 5
    assert highest_of(SEQUENCE_ID_MAX, 0, 3) == SEQUENCE_ID_MAX


def test_nothing_is_taken_behind_a_failed_write_until_all_that_was_pushed_is_settled() -> None:
    """The timeline of apache/pulsar#26113: the first of three fails, the others follow it, all are resent."""
    ids = SequenceIds()
    for sequence_id in (1, 2, 3):
        assert ids.check("p", sequence_id, sequence_id) is Verdict.NEW
        ids.push("p", sequence_id)
    ids.settle("p", 1, 0, durable=False)
    assert ids.check("p", 1, 1) is Verdict.UNKNOWN
    ids.settle("p", 2, 0, durable=False)
    assert ids.check("p", 4, 4) is Verdict.UNKNOWN
    ids.settle("p", 3, 0, durable=False)
    assert ids.check("p", 1, 1) is Verdict.NEW, "it is not here, and must not be taken for a duplicate"
    assert not ids.changed


def test_an_immediate_refusal_does_not_affect_entries_in_flight() -> None:
    ids = SequenceIds()
    ids.push("p", 1)
    ids.push("p", 2)
    ids.settle("p", 2, 0, durable=False)
    assert ids.check("p", 3, 3) is Verdict.UNKNOWN
    ids.settle("p", 1, 0, durable=True)
    assert ids.check("p", 1, 1) is Verdict.DUPLICATE
    assert ids.check("p", 2, 2) is Verdict.NEW


def test_a_log_that_breaks_its_promise_is_found_out() -> None:
    ids = SequenceIds()
    ids.push("p", 1)
    ids.push("p", 2)
    ids.settle("p", 1, 0, durable=False)
    with pytest.raises(AssertionError, match="succeeded behind one that failed"):
        ids.settle("p", 2, 0, durable=True)


def test_inactive_producers_are_forgotten_for_good() -> None:
    ids = known("old", "new")
    ids.left("new", 50)
    before = ids.checkpoint(HERE)
    assert ids.forget_inactive(heard_before=10) == 1
    again = SequenceIds()
    again.load([before, ids.delta(HERE)], 0)
    assert (again.persisted("old"), again.persisted("new")) == (-1, 7)
    assert remembered(ids) == {"new": 7}


def test_connected_producers_are_not_forgotten() -> None:
    ids = known("p")
    ids.joined("p")
    assert ids.forget_inactive(heard_before=1000) == 0
    assert ids.forget_excess(0) == 0
    ids.left("p", 1000)
    assert ids.forget_inactive(heard_before=1000) == 0
    assert ids.forget_inactive(heard_before=1000.1) == 1


def test_a_producer_that_was_known_before_it_connected_is_not_forgotten_after_a_restart() -> None:
    ids = SequenceIds()
    ids.joined("p")
    ids.load([known("p", "q").checkpoint(HERE)], now=5)
    assert ids.forget_inactive(heard_before=6) == 1
    assert ids.persisted("p") == 7


def test_beyond_the_limit_the_longest_inactive_go_first() -> None:
    ids = known("a", "b", "c", "d")
    ids.left("a", 3)
    ids.joined("b")
    assert ids.forget_excess(2) == 2
    assert remembered(ids) == {"a": 7, "b": 7}
    assert ids.forget_excess(2) == 0


def test_news_of_a_producer_elsewhere_keeps_it_from_being_forgotten() -> None:
    ids = known("p")
    ids.replay("p", 8, 100)
    assert ids.forget_inactive(heard_before=100) == 0


def test_a_delta_holds_what_changed_and_nothing_else() -> None:
    ids = known(*(f"producer-{number}" for number in range(1000)))
    whole = ids.checkpoint(HERE)
    assert not ids.changed
    ids.replay("producer-3", 9, 0)
    delta = ids.delta(HERE)
    assert len(delta) < 100 < len(whole)
    again = SequenceIds()
    again.load([whole, delta], 0)
    assert again.persisted("producer-3") == 9
    assert len(again) == 1000


@pytest.mark.parametrize("cut", [0, 1, 8, 9, 20, -1])
def test_a_snapshot_that_is_not_whole_is_refused(cut: int) -> None:
    with pytest.raises(CorruptionError):
        SequenceIds().load([known("a", "b").checkpoint(HERE)[:cut]], 0)


def test_a_snapshot_of_another_version_or_with_more_behind_it_is_refused() -> None:
    data = known("a").checkpoint(HERE)
    with pytest.raises(CorruptionError, match="version 9"):
        SequenceIds().load([b"\x09" + data[1:]], 0)
    with pytest.raises(CorruptionError, match="ends at"):
        SequenceIds().load([data + b"x"], 0)


def test_statistics_show_the_last_snapshot_including_forgotten_producers() -> None:
    ids = known("stays", "goes")
    ids.delta(HERE)
    ids.replay("stays", 9, 5.0)
    ids.replay("new", 3, 5.0)
    assert ids.forget_inactive(1.0) == 1
    assert ids.last_snapshot(10) == ({"stays": 7, "goes": 7}, 0)
    assert ids.last_snapshot(1) == ({"stays": 7}, 1)
    ids.delta(HERE)
    assert ids.last_snapshot(10) == ({"stays": 9, "new": 3}, 0)


def test_replicated_entries_may_succeed_after_refused_ones() -> None:
    ids = SequenceIds()
    for highest in (1, 2, 3):
        ids.push("a", highest)
    ids.settle("a", 2, 1.0, durable=False, is_own=False)
    assert ids.has_failed("a")
    ids.settle("a", 1, 2.0, durable=True, is_own=False)
    ids.settle("a", 3, 3.0, durable=True, is_own=False)
    assert (ids.persisted("a"), ids.has_failed("a")) == (3, False)


def test_local_entries_may_succeed_after_failed_replicated_ones() -> None:
    ids = SequenceIds()
    ids.push("a", 3)
    ids.push("a", 2)
    ids.settle("a", 2, 1.0, durable=False, is_own=False)
    ids.settle("a", 3, 2.0, durable=True)
    assert (ids.persisted("a"), ids.has_failed("a")) == (3, False)


def test_local_entries_never_succeed_after_failed_local_ones() -> None:
    ids = SequenceIds()
    ids.push("a", 1)
    ids.push("a", 2)
    ids.settle("a", 1, 1.0, durable=False)
    with pytest.raises(AssertionError, match="a write of a succeeded behind one that failed"):
        ids.settle("a", 2, 2.0, durable=True)
