from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.ledger.tail_cache import TailCache

RUN = st.tuples(st.integers(1, 3), st.lists(st.binary(max_size=8), min_size=1, max_size=4))


def add(cache: TailCache, ledger_id: int, first: int, entries: list[bytes]) -> None:
    cache.add(ledger_id, first, entries, sum(map(len, entries)))


def test_reads_start_anywhere_and_keep_both_limits() -> None:
    cache = TailCache(100)
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
    cache = TailCache(100)
    add(cache, 1, 0, [b"a", b"b"])
    add(cache, 1, 1, [b"c"])
    assert cache.read(1, 0, 9, 9) is None
    assert cache.read(1, 1, 9, 9) == [b"c"]
    assert cache.size_bytes == 1


def test_a_dropped_ledger_gives_its_bytes_back() -> None:
    cache = TailCache(10)
    add(cache, 1, 0, [b"aaaa"])
    add(cache, 2, 0, [b"bb"])
    cache.drop(1)
    cache.drop(1)
    assert cache.size_bytes == 2
    add(cache, 1, 0, [b"cccc"])
    add(cache, 2, 1, [b"ddddd"])
    assert cache.read(1, 0, 9, 9) == [b"cccc"]
    assert cache.read(2, 0, 9, 9) is None
    assert cache.read(2, 1, 9, 9) == [b"ddddd"]


@given(st.lists(RUN, max_size=60), st.integers(1, 40))
def test_what_is_read_is_what_was_added_within_the_limit(runs: list[tuple[int, list[bytes]]], limit: int) -> None:
    cache = TailCache(limit)
    added: dict[int, list[bytes]] = {}
    for ledger_id, entries in runs:
        known = added.setdefault(ledger_id, [])
        add(cache, ledger_id, len(known), entries)
        known += entries
        assert cache.size_bytes <= max(limit, sum(map(len, entries)))
        assert cache.read(ledger_id, len(known) - len(entries), 99, 999) == entries
    for ledger_id, known in added.items():
        for first in range(len(known)):
            assert cache.read(ledger_id, first, 99, 9999) in (None, known[first:])
