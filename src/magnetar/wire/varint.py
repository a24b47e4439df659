"""Unsigned numbers as protobuf writes them: seven bits a byte, low bits first, the top bit set while more follow.

For the commands that come once per message, which are read and written without protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LOW_BITS = 7
MORE = 0x80
"""Set in every byte of a number but its last; also, how many values the low bits have."""

_SHIFTS = range(LOW_BITS, 64, LOW_BITS)
_UNSIGNED_MAX = 2**64 - 1

_LAST = [bytes([low]) for low in range(MORE)]
_CONTINUED = [bytes([low | MORE]) for low in range(MORE)]


def write(value: int) -> bytes:
    """Write a number."""
    if value < MORE:
        return _LAST[value]
    return _CONTINUED[value % MORE] + write(value >> LOW_BITS)


def write_consecutive(first: int, count: int) -> list[bytes]:
    """Write ``first`` and the ``count - 1`` numbers after it; what they share above the low bits is written once."""
    written: list[bytes] = []
    stop = first + count
    while first < stop:
        low, high = first % MORE, first >> LOW_BITS
        taken = min(stop - first, MORE - low)
        if high:
            end = write(high)
            written += [start + end for start in _CONTINUED[low : low + taken]]
        else:
            written += _LAST[low : low + taken]
        first += taken
    return written


def write_each(numbers: Sequence[int]) -> list[bytes]:
    """Write numbers, quickly where all are equal, or each is the one after the last."""
    if not numbers:
        return []
    first, count = numbers[0], len(numbers)
    if numbers.count(first) == count:
        return [write(first)] * count
    if numbers[-1] == first + count - 1 and list(numbers) == list(range(first, first + count)):
        return write_consecutive(first, count)
    return list(map(write, numbers))


def read(data: bytes, start: int) -> tuple[int, int]:
    """Read a number; return it and where it ends.

    Raises IndexError at the end of the data, and OverflowError for more than 64 bits.
    """
    value = data[start]
    if value < MORE:
        return value, start + 1
    value -= MORE
    for shift in _SHIFTS:
        start += 1
        byte = data[start]
        if byte < MORE:
            value += byte << shift
            if value > _UNSIGNED_MAX:
                break
            return value, start + 1
        value += (byte - MORE) << shift
    message = "a number of more than 64 bits"
    raise OverflowError(message)
