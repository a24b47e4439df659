"""Ack sets: bit sets of the messages of a batch that are not acknowledged yet.

On the wire an ack set is a list of signed 64-bit words, low word first: bit ``i % 64`` of word ``i / 64`` is 1 while
message ``i`` is not acknowledged. In memory it is an int with the same bits, so that acknowledging is ``&``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WORD_BITS = 64
"""Messages per word."""

_WORD_LENGTH = 8


def words_for(batch_size: int) -> int:
    """Return the number of words of an ack set of ``batch_size`` messages. Further words have no meaning."""
    return -(-batch_size // WORD_BITS)


def words_to_int(words: Sequence[int]) -> int:
    """Convert words from the wire to an int; no words give 0."""
    return int.from_bytes(struct.pack(f"<{len(words)}q", *words), "little")


def int_to_words(remaining: int) -> list[int]:
    """Convert a non-negative int to the minimum number of words; 0 gives none.

    On the wire, no words mean no ack set, so a batch without remaining messages is acknowledged as a whole instead.
    """
    count = words_for(remaining.bit_length())
    return list(struct.unpack(f"<{count}q", remaining.to_bytes(count * _WORD_LENGTH, "little")))


def all_remaining(batch_size: int) -> int:
    """Return the ack set of a batch of ``batch_size`` messages, none of them acknowledged."""
    return (1 << batch_size) - 1
