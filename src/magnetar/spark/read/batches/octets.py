"""Bytes that are parsed at many places at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Numbers = NDArray[np.uint64]

_PADDING = bytes(16)
"""Zeros after the data, so that a number at any place can be read without a check of the end."""

_CONTINUED = np.uint64(0x8080_8080_8080_8080)
_LOW_BITS = np.uint64(0x7F7F_7F7F_7F7F_7F7F)
_SIZE_BYTES = 4
_WORD_BYTES = 8
_FIRST_WORD_BITS = np.uint64(56)
"""Bits of the number in the first eight bytes of a varint."""


class Octets:
    """Joined parts of bytes, and the numbers in them. A place is the index of a byte, below ``size``."""

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        """Join ``parts``."""
        self.buffer = b"".join((*parts, _PADDING))
        self.size = len(self.buffer) - len(_PADDING)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.buffer, np.uint8)
        # The number that starts at each byte.
        self._big = np.ndarray((len(self.buffer) - _SIZE_BYTES + 1,), ">u4", self.buffer, strides=(1,))
        self._words = np.ndarray((len(self.buffer) - _WORD_BYTES + 1,), "<u8", self.buffer, strides=(1,))

    def sizes(self, places: Places) -> Places:
        """Return the big-endian numbers of 32 bits at ``places``."""
        return self._big[places].astype(np.int64)

    def varints(self, places: Places) -> tuple[Numbers, Places]:
        """Return the varints at ``places``, modulo 2^64, and the places after them.

        A varint that does not end within ten bytes gives any number, and the place after ten bytes.
        """
        words = self._words[places].astype(np.uint64, copy=False)
        stops = ~words & _CONTINUED
        below = (stops & (~stops + np.uint64(1))) - np.uint64(1)  # the bits below the first byte without MORE
        lengths = (np.bitwise_count(below).astype(np.int64) + 1) >> 3
        values = _packed(words & below & _LOW_BITS)
        long = np.flatnonzero(stops == 0)
        if long.size:
            rest, end = self._varints_of_two(places[long] + _WORD_BYTES)
            values[long] |= rest << _FIRST_WORD_BITS
            lengths[long] = end - places[long]
        return values, places + lengths

    def after(self, starts: Places, lengths: Numbers) -> Places:
        """Return the places after parts of stated ``lengths``, which may lie far beyond the end but do not overflow."""
        return starts + np.minimum(lengths, np.uint64(self.size)).astype(np.int64)

    def _varints_of_two(self, places: Places) -> tuple[Numbers, Places]:
        """Return the varints of at most two bytes at ``places``, and the places after them."""
        first = self.bytes[places].astype(np.uint64)
        second = self.bytes[places + 1].astype(np.uint64)
        more = first >> np.uint64(7)
        return (first & np.uint64(0x7F)) | (second * more << np.uint64(7)), places + 1 + more.astype(np.int64)


def _packed(groups: Numbers) -> Numbers:
    """Return the numbers of which each byte of ``groups`` has seven bits, the low ones first."""
    pairs = (groups & np.uint64(0x007F_007F_007F_007F)) | ((groups & np.uint64(0x7F00_7F00_7F00_7F00)) >> np.uint64(1))
    fours = (pairs & np.uint64(0x0000_3FFF_0000_3FFF)) | ((pairs & np.uint64(0x3FFF_0000_3FFF_0000)) >> np.uint64(2))
    return (fours & np.uint64(0x0FFF_FFFF)) | ((fours & np.uint64(0x0FFF_FFFF_0000_0000)) >> np.uint64(4))
