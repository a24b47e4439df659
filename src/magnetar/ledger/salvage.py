"""What is left of a damaged run: the entries that prove themselves.

One checksum covers a RUN, so a single flipped bit spoils the proof of all its entries. Most entries carry a checksum of
their own (wire/entry.py), put there by their producer. Where the run's index says how many there were, those whose own
checksum holds are as good as ever; only the others are lost.
"""

from __future__ import annotations

from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING

from magnetar.ledger.record import run_lengths
from magnetar.wire.entry import proves_itself

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def salvage(body: bytes, count: int, annotation_size: int) -> list[bytes | None]:
    """Return the ``count`` entries of a RUN whose body is damaged; None in the place of each that cannot be trusted."""
    lengths, rest = run_lengths(body, count, annotation_size)
    if len(lengths) != count:
        return [None] * count
    if sum(lengths) == len(rest):
        return [_proven(rest[start:end]) for start, end in pairwise(accumulate(lengths, initial=0))]
    # A length is damaged: what lies before it can still be found from the front, what lies behind it from the end.
    front = list(_leading(rest, lengths))
    back = list(_trailing(rest, lengths[len(front) :]))[::-1]
    between = rest[sum(map(len, front)) : len(rest) - sum(map(len, back))]
    missing: list[bytes | None] = [None] * (count - len(front) - len(back))
    if len(missing) == 1:
        missing = [_proven(between)]
    return [*front, *missing, *back]


def damaged_ranges(entries: Sequence[bytes | None], first: int) -> list[tuple[int, int]]:
    """Return the ranges ``[first, end)`` of ids that ``salvage`` gave no entry for."""
    ranges = []
    for damaged, group in groupby(entries, key=lambda entry: entry is None):
        count = len(list(group))
        if damaged:
            ranges.append((first, first + count))
        first += count
    return ranges


def _proven(entry: bytes) -> bytes | None:
    return entry if proves_itself(entry) else None


def _leading(data: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    start = 0
    for length in lengths:
        entry = data[start : start + length]
        if len(entry) != length or not proves_itself(entry):
            return
        yield entry
        start += length


def _trailing(data: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    end = len(data)
    for length in reversed(lengths):
        entry = data[max(end - length, 0) : end]
        if len(entry) != length or not proves_itself(entry):
            return
        yield entry
        end -= length
