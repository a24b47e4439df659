"""The properties of many messages at once, as an Arrow map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.base.errors import RemoteProtocolError
from magnetar.spark.read.batches.arrays import cut

if TYPE_CHECKING:
    from magnetar.spark.read.batches.fields import Spans
    from magnetar.spark.read.batches.octets import Octets, Places

_KEY = 0x0A
_VALUE = 0x12

MAP = pa.map_(pa.string(), pa.string())


def properties_of(octets: Octets, properties: Spans) -> pa.Array:
    """Return the properties of each message; a property that occurs twice is there twice.

    Raises RemoteProtocolError for a property that Pulsar's clients do not write: with another field, or not in UTF-8.
    """
    owners, pairs = [], []
    at = properties.starts.copy()
    while (rest := np.flatnonzero(at < properties.ends)).size:
        _, start = octets.varints(at[rest] + 1)
        keys, after = _text(octets, start, _KEY)
        values, after = _text(octets, after, _VALUE)
        owners.append(rest)
        pairs.append((*keys, *values))
        at[rest] = after
    if not owners:
        empty = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.array(np.zeros(len(at) + 1, np.int32)), empty, empty)
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    key_starts, key_ends, value_starts, value_ends = (np.concatenate(part)[order] for part in zip(*pairs, strict=True))
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(at)))))
    try:
        keys = cut(octets, key_starts, key_ends, pa.string())
        values = cut(octets, value_starts, value_ends, pa.string())
        for texts in (keys, values):
            texts.validate(full=True)
    except pa.ArrowInvalid as error:
        message = f"properties of a message are not UTF-8: {error}"
        raise RemoteProtocolError(message) from error
    return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), keys, values)


def _text(octets: Octets, places: Places, tag: int) -> tuple[tuple[Places, Places], Places]:
    """Return the start and end of the text field at ``places``, and the place after it."""
    if (octets.bytes[places] != tag).any():
        message = "a property of a message has unknown fields"
        raise RemoteProtocolError(message)
    lengths, starts = octets.varints(places + 1)
    ends = octets.after(starts, lengths)
    if (ends > octets.size).any():
        message = "a property of a message exceeds its metadata"
        raise RemoteProtocolError(message)
    return (starts, ends), ends
