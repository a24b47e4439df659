"""Protobuf's varints: seven bits a byte, low bits first; the top bit is set in all bytes but the last.

Used for the commands that occur once per message, which are encoded and parsed without protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LOW_BITS = 7
MORE = 0x80
"""The top bit, set in every byte of a number but its last; also the number of values of the low bits."""

_SHIFTS = range(LOW_BITS, 64, LOW_BITS)
_UNSIGNED_MAX = 2**64 - 1

_LAST = [bytes([low]) for low in range(MORE)]
_CONTINUED = [bytes([low | MORE]) for low in range(MORE)]


def write(value: int) -> bytes:
    """Encode a number."""
    if value < MORE:
        return _LAST[value]
    return _CONTINUED[value % MORE] + write(value >> LOW_BITS)


def write_consecutive(first: int, count: int) -> list[bytes]:
    """Encode ``count`` consecutive numbers from ``first`` on; the bytes above the low bits are encoded once."""
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
    """Encode numbers, with a fast path for equal and for consecutive ones."""
    if not numbers:
        return []
    first, count = numbers[0], len(numbers)
    if numbers.count(first) == count:
        return [write(first)] * count
    if numbers[-1] == first + count - 1 and list(numbers) == list(range(first, first + count)):
        return write_consecutive(first, count)
    return list(map(write, numbers))


def read(data: bytes, start: int) -> tuple[int, int]:
    """Read a number; return it and the offset after it.

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
