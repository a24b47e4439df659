"""What is left of a damaged run: the entries that prove themselves.

One checksum covers a RUN, so a single flipped bit spoils the proof of all its entries. Most entries carry a checksum of
their own (wire/entries/entry.py), put there by their producer. Where the run's index says how many there were, those
whose own checksum holds are as good as ever; only the others are lost.

A run in the unsealed segment has no index. The checksums of its damaged entries prove everything else in it
(``decode_damaged``).
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING

import google_crc32c

from magnetar.ledger.segments.record import Kind, decode_record, decode_run_counts, run_lengths
from magnetar.wire.entries.entry import proves_itself, split_checksum, with_checksum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.ledger.segments.record import Record


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


def decode_damaged(data: bytes, at: int, segment: int, offset: int) -> Record | None:
    """Read a RUN whose checksum fails; None unless it is proven that only entries with a checksum are damaged.

    The head, the annotation, the lengths and all other entries of the returned record are as they were written.
    Arguments are those of ``decode_record``.

    The proof: CRC32C is linear, so the checksum of a record can be computed from the checksums of its parts. For an
    entry that does not prove itself, the checksum that it states takes the place of its content. If the result is the
    checksum of the record, nothing but such content has changed. A second attempt takes the content for good and the
    stated checksum for damaged. Damage of anything else passes with a probability of 2^-31.
    """
    for crc_of_entry in (_crc_with_stated_content, _crc_with_own_checksum):
        record = decode_record(data, at, segment, offset, partial(_crc_as_written, crc_of_entry))
        if record is not None and record.kind is Kind.RUN:
            return record._replace(intact=False)
    return None


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


def _crc_as_written(crc_of_entry: Callable[[int, bytes], int], body: bytes) -> int:
    """CRC32C that the body of a RUN had; ``crc_of_entry`` extends a CRC by an entry that does not prove itself."""
    count, annotation_size = decode_run_counts(body)
    lengths, rest = run_lengths(body, count, annotation_size)
    if len(lengths) != count or sum(lengths) != len(rest):
        return _extend(0, body)
    crc = _extend(0, body[: len(body) - len(rest)])
    for start, end in pairwise(accumulate(lengths, initial=0)):
        entry = rest[start:end]
        crc = _extend(crc, entry) if proves_itself(entry) else crc_of_entry(crc, entry)
    return crc


def _crc_with_stated_content(crc: int, entry: bytes) -> int:
    """Extend ``crc`` by an entry whose content was what its checksum says."""
    stated, prefix, content = split_checksum(entry)
    if stated is None:
        return _extend(crc, entry)
    zeros = bytes(len(content))
    return _extend(_extend(crc, prefix), zeros) ^ _extend(0, zeros) ^ stated


def _crc_with_own_checksum(crc: int, entry: bytes) -> int:
    """Extend ``crc`` by an entry that began with the checksum of the content that it has."""
    return _extend(crc, with_checksum(entry))


def _extend(crc: int, data: bytes) -> int:
    return int(google_crc32c.extend(crc, data))
