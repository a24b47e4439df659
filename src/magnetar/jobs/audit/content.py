"""The content of an entry, as the audit compares it.

Compared are the bytes of the payload as stored, and those of the metadata without what replication adds or replaces:
``replicated_from``, the properties of stamps, and the schema version, a number of the registry of one cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mmh3

from magnetar.wire.entries.entry import metadata_bytes, parse_metadata, payload_of
from magnetar.wire.entries.origin import FLOOR_POSITION, LINK_START, PREVIOUS_POSITION, SOURCE_POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

_SCHEMA_VERSION: Final = b"\x82\x01"
"""The key of the field in serialized metadata."""

_SOURCE: Final = SOURCE_POSITION.encode()
_SOURCE_OFFSET: Final = 4
"""Bytes of a serialized property before its name: two keys and two lengths."""

_REPLICATED_FROM: Final = 0x2A
"""The key of the field in serialized metadata, which no name of a cluster contains."""

_AFTER_SOURCE: Final = frozenset({PREVIOUS_POSITION, FLOOR_POSITION, LINK_START})


def digest(entry: bytes) -> int:
    """Return a digest of the content, signed, with 64 bits.

    The bytes of the metadata are compared as they are. A replicator of Apache Pulsar writes them in another form; use
    ``exact_digest`` for entries whose digests differ. Raises RemoteProtocolError for an entry that cannot be parsed.
    """
    metadata = metadata_bytes(entry)
    stamps = metadata.count(_SOURCE)
    if stamps:
        start = _start_of_stamp(metadata) if stamps == 1 else None
        if start is None:
            return exact_digest(entry)
        metadata = metadata[:start]
    if _SCHEMA_VERSION in metadata:
        return exact_digest(entry)
    return _hash(metadata, payload_of(entry))


def exact_digest(entry: bytes) -> int:
    """Return a digest like ``digest``, with the metadata in canonical form."""
    metadata = parse_metadata(entry)
    properties = list(metadata.properties)
    while (stamp := _last_stamp([each.key for each in properties])) is not None:
        del properties[stamp:]
    del metadata.properties[:]
    metadata.properties.extend(properties)
    metadata.ClearField("replicated_from")
    metadata.ClearField("schema_version")
    return _hash(metadata.SerializePartialToString(), payload_of(entry))


def _start_of_stamp(metadata: bytes) -> int | None:
    """Return the place of ``replicated_from`` before the only stamp; None if the metadata has another form."""
    end = start = metadata.index(_SOURCE) - _SOURCE_OFFSET
    for _ in range(2):  # a name of 42 bytes has a length that looks like the key
        start = metadata.rfind(_REPLICATED_FROM, 0, max(0, start))
        if start >= 0 and metadata[start + 1] == end - start - 2:
            return start
    return None


def _last_stamp(keys: Sequence[str]) -> int | None:
    """Return the index of the first property of the stamp at the end of the properties; None if there is none."""
    index = len(keys) - 1
    while index >= 0 and keys[index] in _AFTER_SOURCE:
        index -= 1
    return index if index >= 0 and keys[index] == SOURCE_POSITION else None


def _hash(metadata: bytes, payload: memoryview) -> int:
    low, high = mmh3.hash64(b"".join((metadata, payload)), len(metadata) & 0xFFFF_FFFF)
    return int(low ^ high)
