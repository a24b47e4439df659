"""The content of an entry, as jobs compare it.

Compared are the bytes of the payload as stored, and those of the metadata without what replication adds, replaces or
removes: the fields and properties of stamps, the schema version, a number of the registry of one cluster, and
the id of a transaction, which the replicator of Apache Pulsar removes. All else is kept by every replicator: the
producer's name, sequence id and publish time, the number of messages, the place of a chunk, keys and properties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mmh3

from magnetar.wire.entries.earlier_stamps import PROPERTIES
from magnetar.wire.entries.entry import SCHEMA_VERSION_KEY, metadata_span, parse_metadata, payload_of
from magnetar.wire.entries.origin import SOURCE_POSITION

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCE: Final = SOURCE_POSITION.encode()
_SOURCE_OFFSET: Final = 4
"""Bytes of a serialized property before its name: two keys and two lengths."""

_REPLICATED_FROM: Final = 0x2A
"""The key of the field in serialized metadata, which no name of a cluster contains."""


def digest(entry: bytes) -> int:
    """Return a digest of the content, signed, with 64 bits.

    The bytes of the metadata are compared as they are. A replicator of Apache Pulsar writes them in another form; use
    ``exact_digest`` for entries whose digests differ. Raises RemoteProtocolError for an entry that cannot be parsed.
    """
    start, end = metadata_span(entry)
    source = entry.find(_SOURCE, start, end)
    stamp = end if source < 0 else _start_of_stamp(entry, start, source, end)
    if stamp is None or entry.find(SCHEMA_VERSION_KEY, start, stamp) >= 0:
        return exact_digest(entry)
    content = entry[start:] if stamp == end else entry[start:stamp] + entry[end:]
    return _folded(_hash(content, stamp - start))


def exact_digest(entry: bytes) -> int:
    """Return a digest like ``digest``, with the metadata in canonical form."""
    return _folded(identity(entry))


def identity(entry: bytes) -> tuple[int, int]:
    """Return 128 bits that identify the content, with the metadata in canonical form, as two signed numbers."""
    metadata = parse_metadata(entry)
    properties = list(metadata.properties)
    while (stamp := _last_stamp([each.key for each in properties])) is not None:
        del properties[stamp:]
    del metadata.properties[:]
    metadata.properties.extend(properties)
    metadata.ClearField("replicated_from")
    metadata.ClearField("link_place")
    metadata.ClearField("schema_version")
    metadata.ClearField("txnid_least_bits")
    metadata.ClearField("txnid_most_bits")
    own = metadata.SerializePartialToString()
    return _hash(own + payload_of(entry), len(own))


def _start_of_stamp(entry: bytes, start: int, source: int, end: int) -> int | None:
    """Return the place of ``replicated_from`` before the only stamp, at the end of the metadata from ``start`` on.

    ``source`` is the place of its first name of a property. Returns None if the metadata has another form.
    """
    properties = source - _SOURCE_OFFSET
    if entry.find(_SOURCE, source + 1, end) >= 0:
        return None
    place = properties
    for _ in range(2):  # a name of 42 bytes has a length that looks like the key
        place = entry.rfind(_REPLICATED_FROM, start, max(start, place))
        if place >= 0 and entry[place + 1] == properties - place - 2:
            return place
    return None


def _last_stamp(keys: Sequence[str]) -> int | None:
    """Return the index of the first property of the stamp at the end of the properties; None if there is none."""
    index = len(keys) - 1
    while index >= 0 and keys[index] in PROPERTIES:
        index -= 1
    return index if index >= 0 and keys[index] == SOURCE_POSITION else None


def _hash(content: bytes, metadata_size: int) -> tuple[int, int]:
    low, high = mmh3.hash64(content, metadata_size & 0xFFFF_FFFF)
    return low, high


def _folded(bits: tuple[int, int]) -> int:
    return bits[0] ^ bits[1]
