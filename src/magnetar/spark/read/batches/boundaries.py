"""Places of the messages in batches.

A batch repeats ``u32 size, SingleMessageMetadata, payload``, and the metadata state the size of the payload. So a
message can be found only after the one before it. Message ``i`` of all batches is parsed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from magnetar.spark.read.batches.tags import KEY, PAYLOAD_SIZE, PROPERTIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from magnetar.spark.read.batches.octets import Octets, Places

_SIZE_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Boundaries:
    """The messages of batches, in order. Starts are inclusive, ends exclusive."""

    batches: Places
    """Index of the batch of each message."""
    indexes: NDArray[np.int32]
    """Index of each message in its batch."""
    metadata_starts: Places
    metadata_ends: Places
    payload_ends: Places
    """The payload starts at the end of the metadata."""
    wrong: NDArray[np.bool_]
    """By batch: whether it does not have the usual form, so that its messages have no meaning."""


def boundaries(octets: Octets, starts: Places, ends: Places, counts: Places) -> Boundaries:
    """Return the messages of the batches at ``starts`` to ``ends``, of which batch ``b`` states ``counts[b]``."""
    batches = len(counts)
    firsts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
    total = int(counts.sum())
    metadata_starts, metadata_ends, payload_ends = (np.zeros(total, np.int64) for _ in range(3))
    wrong = np.zeros(batches, np.bool_)
    order = np.argsort(-counts, kind="stable")  # so that the batches with a message ``i`` are the first ones
    living = batches - np.searchsorted(counts[order][::-1], np.arange(counts.max(initial=0)), side="right")
    at, limits, outputs = starts[order], ends[order], firsts[order]
    for index, count in enumerate(living):
        places, limit = at[:count], limits[:count]
        begin = np.minimum(places + _SIZE_LENGTH, limit)
        end = begin + octets.sizes(places)
        field = _payload_size_at(octets, begin)
        size, after = octets.varints(np.minimum(field + 1, limit))
        next_at = octets.after(end, size)
        strange = (octets.bytes[field] != PAYLOAD_SIZE) | (after > end) | (next_at > limit)
        if strange.any():
            wrong[order[:count][strange]] = True
            end, next_at = np.minimum(end, limit), np.minimum(next_at, limit)
        slots = outputs[:count] + index
        metadata_starts[slots], metadata_ends[slots], payload_ends[slots] = begin, end, next_at
        at[:count] = next_at
    wrong[order[at != limits]] = True
    return Boundaries(
        batches=np.repeat(np.arange(batches), counts),
        indexes=(np.arange(total) - np.repeat(firsts, counts)).astype(np.int32),
        metadata_starts=metadata_starts,
        metadata_ends=metadata_ends,
        payload_ends=payload_ends,
        wrong=wrong,
    )


def _payload_size_at(octets: Octets, begins: Places) -> Places:
    """Return the places of ``payload_size``: after the properties and the key, which have lower field numbers."""
    places = begins
    while True:
        tags = octets.bytes[places]
        before = np.flatnonzero((tags == PROPERTIES) | (tags == KEY))
        if not before.size:
            return places
        if places is begins:
            places = begins.copy()
        lengths, starts = octets.varints(places[before] + 1)
        places[before] = np.minimum(octets.after(starts, lengths), octets.size)
