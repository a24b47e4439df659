"""The stamps of a run are those of its entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import entry
from magnetar.wire.entries.entry import messages_in
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.entries.run_stamps import stamp_plain

FIRST = Origin("ewr", Position(3, 98), Position(3, 97), Position(3, 97))


def stamped(entries: list[bytes], first: Origin, version: bytes = b"") -> list[bytes]:
    """Return the entries with the stamp of each."""
    found, origin = [], first
    for each in entries:
        found.append(stamp(each, origin, version))
        position = origin.position
        origin = Origin(first.cluster, position._replace(entry_id=position.entry_id + 1), position, position)
    return found


firsts = st.builds(
    Origin,
    st.sampled_from(["ewr", "x" * 100]),
    st.builds(Position, st.integers(0, 2**40), st.integers(0, 2**40)),
    st.sampled_from([EARLIEST, Position(2, 9)]),
    st.sampled_from([EARLIEST, Position(2, 9)]),
    st.booleans(),
)


@given(firsts, st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_each_entry_has_its_stamp(first: Origin, batches: list[int]) -> None:
    entries = [entry(f"text {n}" * n, num_messages_in_batch=n) if n > 1 else entry("text") for n in batches]
    found = stamp_plain(entries, first)
    assert found is not None
    assert found[0] == stamped(entries, first)
    assert found[1] == sum(map(messages_in, entries))


@pytest.mark.parametrize("size", [1, 8, 20])
def test_the_version_of_the_schema_is_replaced(size: int) -> None:
    version = bytes(range(100, 100 + size))
    entries = [entry("a", schema_version=bytes(8)), entry("b" * 50, schema_version=b"\xff" * 8, partition_key="k")]
    assert stamp_plain(entries, FIRST, version) == (stamped(entries, FIRST, version), 2)


def test_a_schema_on_one_side_only_is_left_to_the_slower_way() -> None:
    with_schema, without = entry("a", schema_version=bytes(8)), entry("b")
    assert stamp_plain([with_schema], FIRST) is None
    assert stamp_plain([without], FIRST, bytes(8)) is None
    assert stamp_plain([with_schema], FIRST, bytes(128)) is None, "its length takes two bytes"


@pytest.mark.parametrize(
    "other",
    [
        b"",
        b"\x0e\x01short",
        entry("damaged")[:-1] + b"D",
        entry("delayed", deliver_at_time=5),
        entry("a marker", marker_type=10),
        entry("a schema", schema_version=bytes(8)),
        entry("without a checksum")[6:],
    ],
)
def test_a_run_with_any_other_entry_is_left_to_the_slower_way(other: bytes) -> None:
    assert stamp_plain([entry("a"), entry("b")], FIRST) is not None
    for entries in ([other], [entry("a"), other], [entry("a"), other, entry("b")]):
        assert stamp_plain(entries, FIRST) is None
