from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.shared_log.tail_cache import CHUNK_BYTES_MAX, CHUNK_OVERHEAD_BYTES, ENTRY_OVERHEAD_BYTES, TailCache

MIB = 1 << 20
RUN = st.tuples(st.integers(1, 3), st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=4))


def add(cache: TailCache, ledger_id: int, first: int, entries: list[bytes]) -> None:
    cache.add(ledger_id, first, entries, sum(map(len, entries)))


def cost(*entries: bytes) -> int:
    """Return the size of a ledger with these entries in one chunk."""
    return CHUNK_OVERHEAD_BYTES + sum(ENTRY_OVERHEAD_BYTES + len(entry) for entry in entries)


def test_reads_start_anywhere_and_keep_both_limits() -> None:
    cache = TailCache(MIB)
    add(cache, 1, 5, [b"aa", b"bb"])
    add(cache, 1, 7, [b"cc", b"dd"])
    assert cache.read(1, 6, 10, 100) == [b"bb", b"cc", b"dd"]
    assert cache.read(1, 6, 2, 100) == [b"bb", b"cc"]
    assert cache.read(1, 6, 10, 5) == [b"bb", b"cc"]
    assert cache.read(1, 6, 10, 1) == [b"bb"], "at least one, whatever its size"
    assert cache.read(1, 4, 10, 100) is None
    assert cache.read(1, 9, 10, 100) is None
    assert cache.read(2, 5, 10, 100) is None


def test_a_run_that_does_not_continue_replaces_what_was_there() -> None:
    cache = TailCache(MIB)
    add(cache, 1, 0, [b"a", b"b"])
    add(cache, 1, 1, [b"c"])
    assert cache.read(1, 0, 9, 9) is None
    assert cache.read(1, 1, 9, 9) == [b"c"]
    assert cache.size_bytes == cost(b"c")


def test_a_dropped_ledger_gives_its_bytes_back() -> None:
    cache = TailCache(2 * cost(b"cccc") + cost(b"cccc") // 2)
    add(cache, 1, 0, [b"aaaa"])
    add(cache, 2, 0, [b"bb"])
    cache.drop(1)
    cache.drop(1)
    assert cache.size_bytes == cost(b"bb")
    add(cache, 1, 0, [b"cccc"])
    add(cache, 2, 1, [b"ddddd"])
    assert cache.read(1, 0, 9, 9) == [b"cccc"]
    assert cache.read(2, 0, 9, 9) is None
    assert cache.read(2, 1, 9, 9) == [b"ddddd"]


def test_the_records_of_a_cursor_take_nothing() -> None:
    cache = TailCache(MIB)
    for number in range(1000):
        add(cache, 7, number, [b""])
    assert (cache.size_bytes, len(cache)) == (0, 0)


def test_nothing_remains_of_dropped_ledgers() -> None:
    cache = TailCache(64 * MIB)
    for ledger_id in range(1000):
        for number in range(5):
            add(cache, ledger_id, number, [b"x" * 100])
        cache.drop(ledger_id)
    assert (cache.size_bytes, len(cache)) == (0, 0)


@pytest.mark.parametrize(("ledgers", "size"), [(1, 1), (1, 100), (20, 100), (100_000, 1), (3, 200_000)])
def test_the_limit_bounds_what_the_cache_takes_in_memory(ledgers: int, size: int) -> None:
    limit = 2 * MIB
    rounds = 3 * limit // (ledgers * (size + ENTRY_OVERHEAD_BYTES)) + 1
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        cache = TailCache(limit)
        for number in range(rounds):
            for ledger_id in range(ledgers):
                cache.add(ledger_id, number, (bytes(size),), size)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.size_bytes <= limit
    assert limit / 4 < after - before < 1.25 * limit


def test_the_newest_entries_of_a_slow_ledger_stay() -> None:
    cache = TailCache(MIB)
    for number in range(1000):
        add(cache, 1, number, [b"slow"])
        for fast in range(10):
            add(cache, 2, 10 * number + fast, [b"x" * 1000])
        assert cache.read(1, max(0, number - 20), 99, 999) == [b"slow"] * (min(number, 20) + 1)


def test_a_run_larger_than_a_chunk_is_evicted_alone() -> None:
    cache = TailCache(16 * CHUNK_BYTES_MAX)
    large = b"x" * (2 * CHUNK_BYTES_MAX)
    for number in range(20):
        add(cache, 1, number, [large])
        assert cache.read(1, number, 1, 1) == [large]
    assert len(cache) < 8, "with their overhead, eight are beyond the limit"


@given(st.lists(RUN, max_size=60), st.integers(1, 6 * cost(b"12345678")))
def test_reads_return_added_entries_within_the_limit(runs: list[tuple[int, list[bytes]]], limit: int) -> None:
    cache = TailCache(limit)
    added: dict[int, list[bytes]] = {}
    for ledger_id, entries in runs:
        known = added.setdefault(ledger_id, [])
        add(cache, ledger_id, len(known), entries)
        known += entries
        assert cache.size_bytes <= max(limit, cost(*entries))
        assert cache.read(ledger_id, len(known) - len(entries), 99, 999) == entries
    for ledger_id, known in added.items():
        for first in range(len(known)):
            assert cache.read(ledger_id, first, 99, 9999) in (None, known[first:])
