"""Entries that are not in the order of their origin. Pure."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from magnetar.jobs.audit.tables import FINDINGS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Piece(NamedTuple):
    """Consecutive entries, in the log of a cluster and at the origin."""

    origin_ledger: int
    origin_entry: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which has no use here
    ledger: int
    entry: int


def misplaced(runs: pa.Table) -> pa.Table:
    """Return the findings of the runs of one topic, cluster and origin, which is another cluster.

    An entry is misplaced if a longest sequence in the right order can do without it: after the exchange of two
    neighbours both of them, after a single move the moved one. Repeated entries count at their first place.
    """
    rows = []
    same = {name: runs[name][0].as_py() for name in ("topic", "cluster", "origin")}
    pieces = list(_without_repetition(_in_log_order(runs)))
    for piece, is_fixed in zip(pieces, _in_all_longest([(each[:2], each.count) for each in pieces]), strict=True):
        if not is_fixed:
            rows.append({"kind": Kind.REORDERED.value, **same, **piece._asdict()})
    return pa.Table.from_pylist(rows, FINDINGS)


def _in_log_order(runs: pa.Table) -> list[Piece]:
    columns = [runs[name].to_pylist() for name in ("origin_ledger", "origin_entry", "count", "ledger", "entry")]
    return sorted(map(Piece, *columns), key=lambda piece: piece[3:])


def _without_repetition(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces without entries that an earlier one has."""
    seen: dict[int, list[tuple[int, int]]] = {}  # by ledger, disjoint first and end entries, ascending
    for piece in pieces:
        of_ledger = seen.setdefault(piece.origin_ledger, [])
        begin, end = piece.origin_entry, piece.origin_entry + piece.count
        index = max(0, bisect_left(of_ledger, (begin,)) - 1)
        at = begin
        while index < len(of_ledger) and of_ledger[index][0] < end:
            if of_ledger[index][1] > at:
                yield from _cut(piece, at, of_ledger[index][0])
                at = of_ledger[index][1]
            index += 1
        yield from _cut(piece, at, end)
        _add(of_ledger, begin, end)


def _cut(piece: Piece, begin: int, end: int) -> Iterator[Piece]:
    if begin < end:
        skipped = begin - piece.origin_entry
        yield Piece(piece.origin_ledger, begin, end - begin, piece.ledger, piece.entry + skipped)


def _add(intervals: list[tuple[int, int]], begin: int, end: int) -> None:
    """Add ``[begin, end)`` to disjoint intervals."""
    first = bisect_left(intervals, (begin,))
    if first and intervals[first - 1][1] >= begin:
        first -= 1
    stop = first
    while stop < len(intervals) and intervals[stop][0] <= end:
        begin, end = min(begin, intervals[stop][0]), max(end, intervals[stop][1])
        stop += 1
    intervals[first:stop] = [(begin, end)]


def _in_all_longest(weighted: Sequence[tuple[tuple[int, int], int]]) -> list[bool]:
    """Return whether each key, of different keys with weights, is in all heaviest ascending subsequences."""
    before = _heaviest(weighted)
    after = _heaviest([((-key[0], -key[1]), weight) for key, weight in reversed(weighted)])[::-1]
    total = max(before, default=0)
    is_in_one = [
        left + right - weight == total for left, right, (_, weight) in zip(before, after, weighted, strict=True)
    ]
    # The keys of a heaviest subsequence cover [left - weight, left); one is in all of them if no other overlaps it.
    spans = sorted(
        (before[index] - weighted[index][1], before[index], index) for index in range(len(weighted)) if is_in_one[index]
    )
    fixed = [False] * len(weighted)
    reach = 0
    for number, (begin, end, index) in enumerate(spans):
        following = spans[number + 1][0] if number + 1 < len(spans) else total
        fixed[index] = reach <= begin and following >= end
        reach = max(reach, end)
    return fixed


def _heaviest(weighted: Sequence[tuple[tuple[int, int], int]]) -> list[int]:
    """Return, for each key, the weight of the heaviest ascending subsequence that ends with it."""
    ranks = {key: rank for rank, key in enumerate(sorted(key for key, _ in weighted), 1)}
    tree = [0] * (len(weighted) + 1)  # the heaviest among the lower ranks, as a Fenwick tree
    found = []
    for key, weight in weighted:
        best, rank = 0, ranks[key] - 1
        while rank:
            best, rank = max(best, tree[rank]), rank & (rank - 1)
        best += weight
        found.append(best)
        rank = ranks[key]
        while rank < len(tree):
            tree[rank], rank = max(tree[rank], best), rank + (rank & -rank)
    return found
