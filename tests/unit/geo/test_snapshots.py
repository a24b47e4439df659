"""Snapshots of PIP-33: their completion, and their eviction from a subscription's cache."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import MARKER_SIZE_MAX
from magnetar.base.position import Position
from magnetar.geo.snapshots.cache import Round, Snapshot, SnapshotBuilder, SnapshotCache
from magnetar.geo.snapshots.codec import decode_snapshots, encode_snapshots
from magnetar.geo.snapshots.markers import (
    SNAPSHOT_MARKER_PARTS_MAX,
    SnapshotRequest,
    SnapshotResponse,
    SubscriptionUpdate,
    decode,
)
from magnetar.wire.entries import markers


def at(entry_id: int) -> Position:
    return Position(3, entry_id)


def taken(entry_id: int) -> Snapshot:
    return Snapshot(f"s{entry_id}", at(entry_id), {"jfk": Position(9, 100 + entry_id)})


def count(after: Position, through: Position) -> int:
    return through.entry_id - after.entry_id


def held(cache: SnapshotCache) -> list[int]:
    return [snapshot.local.entry_id for snapshot in cache]


def test_one_other_cluster_is_asked_once() -> None:
    builder = SnapshotBuilder("s", ["jfk"], 5.0)
    assert builder.missing == ["jfk"]
    assert builder.answered("jfk", at(7)) is Round.COMPLETE
    assert builder.positions == {"jfk": at(7)}


def test_two_are_asked_twice_and_what_they_answer_first_counts() -> None:
    builder = SnapshotBuilder("s", ["lga", "jfk"], 5.0)
    assert builder.missing == ["jfk", "lga"]
    assert builder.answered("lga", at(1)) is Round.WAITING
    assert builder.answered("lga", at(2)) is Round.WAITING, "it has answered already"
    assert builder.answered("bos", at(2)) is Round.WAITING, "it was not asked"
    assert builder.answered("jfk", at(3)) is Round.AGAIN
    assert builder.missing == ["jfk", "lga"]
    assert builder.answered("jfk", at(8)) is Round.WAITING
    assert builder.answered("lga", at(9)) is Round.COMPLETE
    assert builder.positions == {"jfk": at(3), "lga": at(1)}


def test_a_subscription_gets_the_newest_snapshot_that_it_has_passed_and_only_once() -> None:
    cache = SnapshotCache(5)
    for entry_id in (10, 20, 30):
        cache.add(taken(entry_id), count)
    assert cache.advance(at(9)) is None
    assert cache.advance(at(20)) == taken(20)
    assert cache.advance(at(25)) is None
    assert held(cache) == [30]


def test_without_entries_in_between_the_newer_snapshot_counts() -> None:
    cache = SnapshotCache(5)
    cache.add(taken(10), count)
    newer = taken(10)._replace(positions={"jfk": Position(9, 500)})
    cache.add(newer, count)
    assert cache.advance(at(10)) == newer
    assert len(cache) == 0


def test_a_log_that_went_back_takes_its_snapshots_along() -> None:
    cache = SnapshotCache(5, [taken(10), taken(20), taken(30)])
    cache.add(taken(15), count)
    assert held(cache) == [10, 15]


def test_of_too_many_the_one_goes_whose_neighbours_are_nearest_to_each_other() -> None:
    cache = SnapshotCache(4, [taken(0), taken(10), taken(30), taken(31)])
    cache.add(taken(50), count)
    assert held(cache) == [0, 10, 30, 50], "(0, 30] holds 30 entries, (10, 31] 21, (30, 50] 20"


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200), st.integers(3, 10))
def test_the_oldest_and_the_newest_stay_and_what_lies_between_stays_spread(steps: list[int], limit: int) -> None:
    cache = SnapshotCache(limit)
    positions: list[int] = []
    for step in steps:
        positions.append((positions[-1] if positions else 0) + step)
        cache.add(taken(positions[-1]), count)
    kept = held(cache)
    assert kept == sorted(set(kept))
    assert len(kept) == min(limit, len(positions))
    assert (kept[0], kept[-1]) == (positions[0], positions[-1])


def test_a_consumer_that_is_far_behind_passes_a_snapshot_long_before_the_end() -> None:
    cache = SnapshotCache(30)
    for entry_id in range(0, 100_000, 10):
        cache.add(taken(entry_id), count)
    passed = [entry_id for entry_id in range(0, 100_000, 100) if cache.advance(at(entry_id))]
    gaps = [later - earlier for earlier, later in pairwise([*passed, 100_000])]
    assert passed[0] == 0
    assert max(gaps) < 10_000, "they lie over the whole backlog, and not at its end"


def test_snapshots_come_back_from_where_they_are_kept() -> None:
    snapshots = [taken(1), taken(2)._replace(positions={"jfk": Position(4, -1), "lga": Position(7, 7)})]
    assert decode_snapshots(encode_snapshots(snapshots)) == snapshots
    assert decode_snapshots(None) == []


def test_markers_are_read_as_apache_pulsar_writes_them() -> None:
    assert decode(markers.SNAPSHOT_REQUEST, markers.snapshot_request("s", "ewr")) == SnapshotRequest("s", "ewr")
    response = markers.snapshot_response("s", "jfk", Position(3, -1))
    assert decode(markers.SNAPSHOT_RESPONSE, response) == SnapshotResponse("s", "jfk", Position(3, -1))
    update = markers.subscription_update("moves", {"jfk": at(4)})
    assert decode(markers.UPDATE, update) == SubscriptionUpdate("moves", {"jfk": at(4)})
    assert decode(markers.SNAPSHOT, markers.snapshot("s", at(1), {})) is None, "it is for the cluster that took it"
    with pytest.raises(RemoteProtocolError, match="type 13 cannot be read"):
        decode(markers.UPDATE, b"\xff")


def test_a_marker_that_is_too_large_is_refused() -> None:
    element = b"\x12\x00"  # an empty element of a list
    with pytest.raises(RemoteProtocolError, match=r"of 10001 parts .* 10000 \(maxPartsPerSnapshotMarker\)"):
        decode(markers.UPDATE, b"\x0a\x01s" + element * 10_001)
    for kind in (markers.SNAPSHOT_REQUEST, markers.SNAPSHOT_RESPONSE, markers.UPDATE):
        with pytest.raises(RemoteProtocolError, match=r"1048576 \(maxMarkerSize\)"):
            decode(kind, element * (MARKER_SIZE_MAX // 2 + 1))


def test_the_intervals_of_claims_have_a_limit() -> None:
    intervals = [(at(3 * number), at(3 * number + 1)) for number in range(SNAPSHOT_MARKER_PARTS_MAX + 1)]
    assert decode(markers.UPDATE, markers.subscription_update("s", {}, ({}, {"jfk": intervals[1:]}))) is not None
    with pytest.raises(RemoteProtocolError, match="maxPartsPerSnapshotMarker"):
        decode(markers.UPDATE, markers.subscription_update("s", {}, ({}, {"jfk": intervals})))
