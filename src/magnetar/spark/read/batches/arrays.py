"""Arrow arrays of parts of the parsed bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from magnetar.spark.read.batches.octets import Octets, Places


def cut(octets: Octets, starts: Places, ends: Places, kind: pa.DataType) -> pa.Array:
    """Return the bytes from each start to each end, as an array of ``kind``, binary or string.

    The parts must be in order and must not overlap.
    """
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(octets.buffer)]
    parts_and_gaps = pa.Array.from_buffers(kind, max(0, len(bounds) - 1), buffers)
    return parts_and_gaps.take(pa.array(np.arange(0, len(parts_and_gaps), 2, dtype=np.int32)))


def nullable(array: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """Return the array with null where ``present`` is false."""
    return array if present.all() else pc.if_else(pa.array(present), array, pa.scalar(None, array.type))


def repeated(values: Sequence[str | bytes | None], kind: pa.DataType, indexes: Places) -> pa.Array:
    """Return ``values[i]`` for each of the indexes; equal values are stored once on the way."""
    encoded = pa.array(values, kind).dictionary_encode()
    return encoded.dictionary.take(encoded.indices.take(pa.array(indexes)))
