from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import CorruptionError, RemoteProtocolError
from magnetar.base.limits import CLUSTER_NAME_LENGTH_MAX, MARKER_SIZE_MAX, Limit
from magnetar.base.position import Position
from magnetar.broker.loop.slices import at_once
from magnetar.geo.origins.index import Claim, PartialClaim
from magnetar.geo.origins.intervals import Interval, IntervalSet
from magnetar.geo.progress import codec
from magnetar.geo.progress.codec import (
    PROGRESS_MARKER_PARTS_MAX,
    decode_marker,
    decode_state,
    encode_markers,
    encode_state,
    restoring,
)
from magnetar.geo.progress.epochs import EPOCH_COUNTER_MAX, FIRST_EPOCH, Epoch
from magnetar.geo.progress.state import Kind, OriginProgress, SubscriptionProgress
from magnetar.wire.proto import magnetar_markers_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def at(entry_id: int) -> Position:
    return Position(1, entry_id)


def claim(lower: int, upper: int, cluster: str = "a") -> Claim:
    return Claim(cluster, at(lower), at(upper))


pairs = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(pairs, pairs)
def test_intervals_are_the_set_of_their_positions(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    one = IntervalSet.from_pairs((at(lower), at(upper)) for lower, upper in first)
    two = IntervalSet.from_pairs((at(lower), at(upper)) for lower, upper in second)
    naive = [{entry for lower, upper in each for entry in range(lower + 1, upper + 1)} for each in (first, second)]
    members = [{entry for entry in range(60) if at(entry) in each} for each in (one, two)]
    assert members == naive
    union = IntervalSet.from_pairs([*one, *two])
    assert union == IntervalSet.from_pairs([*two, *one])
    assert {entry for entry in range(60) if at(entry) in two.subtract(one)} == naive[1] - naive[0]
    added = one.update(two)
    assert {entry for part in added for entry in range(part.lower.entry_id + 1, part.upper.entry_id + 1)} == (
        naive[1] - naive[0]
    )
    assert one == union
    assert one.update(two) == []
    assert all(one.covers(lower, upper) for lower, upper in two)
    bounds = [bound for interval in one for bound in interval]
    assert bounds == sorted(set(bounds)), "shortest form: nothing overlaps or touches"


def test_a_higher_epoch_replaces_and_a_lower_one_is_ignored() -> None:
    ours, theirs = SubscriptionProgress("worker"), SubscriptionProgress("worker")
    ours.claim([claim(0, 9)])
    theirs.reseek("b", {"a": OriginProgress(at(4))})
    theirs.claim([claim(4, 5)])
    outcome = ours.merge(theirs)
    assert (outcome.kind, outcome.rebuild) == (Kind.REPLACED, True)
    assert ours == theirs
    assert ours.merge(SubscriptionProgress("worker")).kind is Kind.IGNORED
    assert ours.epoch == Epoch(1, "b") > Epoch(1, "") > FIRST_EPOCH


def test_nothing_resurrects_a_deleted_subscription_but_creating_it_again() -> None:
    old = SubscriptionProgress("worker")
    old.claim([claim(0, 9)])
    grave = old.tombstone("a")
    state = old.copy()
    assert state.merge(grave).kind is Kind.DELETED
    assert state.merge(old).kind is Kind.IGNORED
    assert state.deleted
    again = SubscriptionProgress("worker", epoch=grave.epoch.created_after())
    assert state.merge(again).kind is Kind.REPLACED
    assert not state.deleted
    assert state.merge(grave).kind is Kind.IGNORED


def test_the_earlier_start_wins_and_opens_what_was_outside() -> None:
    early, late = SubscriptionProgress("worker", {"a": at(3)}), SubscriptionProgress("worker", {"a": at(8), "b": at(2)})
    assert not early.copy().merge(late).rebuild
    outcome = late.merge(early)
    assert outcome.reopened == [claim(3, 8), Claim("b", Position(-1, -1), at(2))]
    assert late.starts() == {"a": at(3)}


def test_entries_outside_are_covered_but_never_claimed() -> None:
    state = SubscriptionProgress("worker", {"a": at(5)})
    delta = state.claim([claim(0, 3), claim(3, 7)])
    assert delta is not None
    assert list(delta.origins["a"].acknowledged) == [Interval(at(5), at(7))]
    assert delta.starts() == {"a": at(5)}
    assert state.covered_in("a", at(2), at(9)) == [claim(2, 5), claim(5, 7)]
    assert state.claim([claim(5, 7)]) is None


@given(st.integers(0, 20), pairs, st.lists(st.integers(0, 50)), st.integers(0, 50))
def test_a_state_is_untouched_exactly_where_everything_is_to_be_delivered(
    start: int, acknowledged: list[tuple[int, int]], narrowed: list[int], lower: int
) -> None:
    state = SubscriptionProgress("worker", {"a": at(start)})
    state.claim([claim(*each) for each in acknowledged], [PartialClaim("a", at(each), 0b1) for each in narrowed])
    has_partial = bool(state.origins["a"].partial)
    nothing = not state.covered_in("a", at(lower), at(99)) and not has_partial
    assert state.is_untouched_after("a", at(lower)) == nothing
    assert state.is_untouched_after("b", at(lower))


def test_batches_acknowledged_in_part_by_two_clusters_become_whole() -> None:
    one, two = SubscriptionProgress("worker"), SubscriptionProgress("worker")
    one.claim([], [PartialClaim("a", at(4), 0b110)])
    delta = two.claim([], [PartialClaim("a", at(4), 0b001)])
    assert delta is not None
    assert one.merge(delta).news == [claim(3, 4)]
    assert list(one.partials()) == []
    assert one.merge(delta).changed is False


def large_state() -> SubscriptionProgress:
    state = SubscriptionProgress("worker", {"a": at(3), "b": at(1)}, Epoch(7, "jfk"))
    for cluster in ("a", "b"):
        state.claim([claim(10 * number, 10 * number + 5, cluster) for number in range(1, 200)])
        state.claim([], [PartialClaim(cluster, at(10 * number + 7), 2**80 + number) for number in range(1, 50)])
    return state


def test_parts_stand_alone_and_together_are_the_state() -> None:
    state = large_state()
    small = SubscriptionProgress("other")
    lives = {"ewr": "a@1", "jfk": "b@7"}
    markers = [
        *encode_markers("ewr", [state, small], full=True, oldest_acknowledged_at_ms=5, lives=lives, bytes_max=2000)
    ]
    assert len(markers) > 5
    assert max(map(len, markers)) <= 2000
    reports = [decode_marker(payload) for payload in markers]
    assert all(report.lives == lives for report in reports)
    assert {(report.source_cluster, report.oldest_acknowledged_at_ms) for report in reports} == {("ewr", 5)}
    parts = [part for report in reports for part in report.states]
    *parts, last = parts
    assert last == small
    assert all((part.epoch, part.starts()) == (state.epoch, state.starts()) for part in parts)
    received = SubscriptionProgress("worker")
    for part in reversed(parts):
        received.merge(part)
    assert received == state


def test_a_state_and_its_deltas_are_restored_in_order() -> None:
    state = large_state()
    saved = [encode_state(state)]
    delta = state.claim([claim(10_000, 10_001)])
    assert delta is not None
    saved.append(encode_state(delta))
    state.reseek("ewr", {"b": OriginProgress(at(9))})
    saved.append(encode_state(state))
    assert at_once(restoring(saved)) == state
    assert at_once(restoring([])) is None
    assert decode_state(encode_state(state.tombstone("ewr"))).deleted


def test_a_large_delta_is_restored_like_a_small_one() -> None:
    """The smaller state is merged into the larger one."""
    state, expected = SubscriptionProgress("worker", {"a": at(2)}), SubscriptionProgress("worker", {"a": at(2)})
    delta = large_state()
    delta.epoch = state.epoch
    expected.merge(delta)
    assert at_once(restoring([encode_state(state), encode_state(delta)])) == expected
    assert at_once(restoring([encode_state(delta), encode_state(state)])) == expected
    older = SubscriptionProgress("worker", epoch=state.epoch)
    state.epoch = state.epoch.raised_by("ewr")
    assert at_once(restoring([encode_state(older), encode_state(state), encode_state(delta)])) == state


def test_unreadable_input_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        decode_marker(b"\xff")
    with pytest.raises(CorruptionError):
        decode_state(b"\xff")
    for ledgers in (
        [(1, [5, 0])],
        [(1, [5])],
        [(1, [1]), (0, [1])],
        [(-2, [1, 1])],
        [(-1, [0, 0])],
        [(1, [1, 2**63])],
        [(1, [1, 2**64 - 1])],
    ):
        message = pb.SubscriptionProgress(subscription="worker", epoch=pb.Epoch(counter=0, cluster=""))
        origin = message.origins.add(cluster="a")
        for ledger_id, steps in ledgers:
            origin.acknowledged.add(ledger_id=ledger_id, entry_steps=steps)
        with pytest.raises(CorruptionError, match="cannot be read"):
            decode_state(message.SerializeToString())


@pytest.mark.parametrize("counter", [EPOCH_COUNTER_MAX + 1, 2**64 - 1])
def test_an_epoch_that_could_not_be_raised_any_more_is_refused(counter: int) -> None:
    message = pb.ProgressMarker(source_cluster="jfk")
    message.subscriptions.add(subscription="worker").epoch.MergeFrom(pb.Epoch(counter=counter, cluster="jfk"))
    with pytest.raises(RemoteProtocolError, match="epoch"):
        decode_marker(message.SerializeToString())
    message.subscriptions[0].epoch.counter = EPOCH_COUNTER_MAX
    (state,) = decode_marker(message.SerializeToString()).states
    state.epoch = state.epoch.raised_by("ewr")
    assert encode_state(state)


def test_a_marker_of_a_state_with_many_holes_is_made_of_few_of_them() -> None:
    state = SubscriptionProgress("worker")
    state.claim([claim(2 * number, 2 * number + 1) for number in range(50_000)])
    markers = encode_markers("ewr", [state], full=True)
    (part,) = decode_marker(next(markers)).states
    assert 1_000 < part.intervals < 10_000
    received = decode_state(encode_state(state))
    assert received == state
    for payload in markers:
        (part,) = decode_marker(payload).states
        assert not received.merge(part).changed


def test_a_marker_with_too_many_parts_is_refused() -> None:
    few = pb.ProgressMarker(source_cluster="jfk")
    state = few.subscriptions.add(subscription="worker", epoch=pb.Epoch(counter=0, cluster=""))
    origin = state.origins.add(cluster="a")
    origin.acknowledged.add(ledger_id=1, entry_steps=[1] * (PROGRESS_MARKER_PARTS_MAX - 6))
    assert decode_marker(few.SerializeToString()).states[0].intervals > 0
    additions: tuple[Callable[[pb.ProgressMarker], object], ...] = (
        lambda marker: marker.subscriptions.extend([state] * 2),
        lambda marker: marker.subscriptions[0].origins.extend([pb.OriginProgress(cluster="b")] * 2),
        lambda marker: marker.subscriptions[0].origins[0].acknowledged.extend([pb.LedgerBounds(ledger_id=2)] * 2),
        lambda marker: marker.subscriptions[0].origins[0].acknowledged[0].entry_steps.extend([1, 1]),
        lambda marker: (
            marker.subscriptions[0].origins[0].partial.add(position=pb.OriginPosition(ledger_id=1, entry_id=1))
        ),
        lambda marker: marker.lives.extend([pb.ClusterLife(cluster="a", life="b")]),
    )
    for add in additions:
        many = pb.ProgressMarker()
        many.CopyFrom(few)
        add(many)
        with pytest.raises(RemoteProtocolError, match="maxPartsPerProgressMarker"):
            decode_marker(many.SerializeToString())


def test_a_marker_that_is_too_large_is_not_parsed() -> None:
    element = b"\x0a\x00"  # of any list
    with pytest.raises(RemoteProtocolError, match=r"marker of 1048578 bytes exceeds .* 1048576 \(maxMarkerSize\)"):
        decode_marker(element * (MARKER_SIZE_MAX // 2 + 1))


class Unread(list[Any]):
    """A list whose elements must not be read."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


@pytest.mark.parametrize("level", ["subscriptions", "origins", "acknowledged", "partial"])
def test_the_elements_of_a_list_that_is_too_long_are_not_read(level: str) -> None:
    """To read a million empty origins took seconds."""
    lists: dict[str, list[Any]] = {"acknowledged": [], "partial": [], "origins": [], "subscriptions": []}
    lists[level] = Unread([None] * PROGRESS_MARKER_PARTS_MAX * 2)
    if level in ("acknowledged", "partial"):
        lists["origins"] = [SimpleNamespace(acknowledged=lists["acknowledged"], partial=lists["partial"])]
    if level != "subscriptions":
        lists["subscriptions"] = [SimpleNamespace(origins=lists["origins"])]
    marker: Any = SimpleNamespace(subscriptions=lists["subscriptions"], lives=[])
    with pytest.raises(RemoteProtocolError, match="maxPartsPerProgressMarker"):
        codec._check_parts(marker)


def test_no_marker_of_many_small_states_has_too_many_parts() -> None:
    states = [SubscriptionProgress(str(number)) for number in range(30_000)]
    batches = SubscriptionProgress("batches")
    for number in range(20_000):
        batches.origin("a").narrow(Position(1, 2 * number), 1)
    markers = [decode_marker(payload) for payload in encode_markers("ewr", [*states, batches], full=True)]
    assert sum(len(marker.states) for marker in markers) > len(states)
    assert len(markers) > 3


def test_no_marker_that_is_sent_has_too_many_parts() -> None:
    state = SubscriptionProgress("worker")
    state.claim([Claim("a", Position(2 * each, 1), Position(2 * each + 1, 1)) for each in range(20_000)])
    markers = list(encode_markers("ewr", [state], full=True))
    assert sum(decode_marker(payload).states[0].intervals for payload in markers) == 20_000


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 30)), max_size=40, unique=True))
def test_any_set_of_intervals_comes_back_from_its_bytes(positions: list[tuple[int, int]]) -> None:
    bounds = [Position(*each) for each in sorted(positions)][len(positions) % 2 :]
    state = SubscriptionProgress("worker")
    state.claim(Claim("a", lower, upper) for lower, upper in zip(bounds[::2], bounds[1::2], strict=True))
    assert decode_state(encode_state(state)) == state
    copied = state.copy()
    assert copied == state
    assert copied.origin("a").acknowledged.has_all_of(state.origin("a").acknowledged)
    copied.claim([Claim("a", Position(9, 0), Position(9, 1))])
    assert copied != state
    assert not state.origin("a").acknowledged.has_all_of(copied.origin("a").acknowledged)


def marker_with(field: str, name: str) -> bytes:
    """Return a marker with one invalid name."""
    names = {"source": "jfk", "life": "jfk", "epoch": "jfk", "origin": "jfk", "subscription": "worker", field: name}
    message = pb.ProgressMarker(source_cluster=names["source"])
    message.lives.add(cluster=names["life"], life="x@1")
    state = message.subscriptions.add(subscription=names["subscription"])
    state.epoch.MergeFrom(pb.Epoch(counter=1, cluster=names["epoch"]))
    state.origins.add(cluster=names["origin"])
    return message.SerializeToString()


@pytest.mark.parametrize("field", ["source", "life", "epoch", "origin", "subscription"])
def test_names_in_a_marker_are_text(field: str) -> None:
    assert decode_marker(marker_with(field, "lga"))
    with pytest.raises(RemoteProtocolError, match="progress marker cannot be read"):
        decode_marker(marker_with(field, "@@").replace(b"@@", b"\xff\xfe"))


@pytest.mark.parametrize("field", ["source", "life", "epoch", "origin"])
def test_names_of_clusters_in_a_marker_have_a_limit(field: str) -> None:
    assert decode_marker(marker_with(field, "x" * CLUSTER_NAME_LENGTH_MAX))
    with pytest.raises(RemoteProtocolError, match="maxClusterNameLength") as raised:
        decode_marker(marker_with(field, "x" * (CLUSTER_NAME_LENGTH_MAX + 1)))
    assert raised.value.limit is Limit.CLUSTER_NAME_LENGTH


def test_a_marker_names_its_subscription() -> None:
    with pytest.raises(RemoteProtocolError, match="without a name"):
        decode_marker(marker_with("subscription", ""))


def test_stored_progress_may_have_any_name() -> None:
    state = SubscriptionProgress("worker", epoch=Epoch(1, "x" * 1000))
    state.origin("y" * 1000).acknowledge(Position(1, 0), Position(1, 1))
    assert decode_state(encode_state(state)) == state
