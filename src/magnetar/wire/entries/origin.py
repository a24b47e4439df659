"""The stamp that names an entry's origin: the cluster where it was produced, and its position there.

A replicated entry carries, in its metadata, ``replicated_from`` and, behind its producer's own properties:

* ``__MSG_PROP_REPL_SOURCE_POSITION``, ``ledger:entry`` at the origin; Apache Pulsar writes this one too;
* ``__MAGNETAR_PREVIOUS_POSITION``, the origin position of the entry sent before it on the same link;
* ``__MAGNETAR_FLOOR_POSITION``, the origin position down to which the origin produced nothing before the entry,
  for this link or not, where it is another than the previous position;
* ``__MAGNETAR_LINK_START``, ``true`` on the first entry of a link that starts behind entries it will never carry.

The stamp is appended to the serialized metadata: concatenation merges in protobuf, so every byte that the producer
wrote survives, fields unknown here included. Properties before the source position are the producer's and are never
taken for ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.entries.entry import assemble, checksum_matches, metadata_bytes, parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

SOURCE_POSITION: Final = "__MSG_PROP_REPL_SOURCE_POSITION"
PREVIOUS_POSITION: Final = "__MAGNETAR_PREVIOUS_POSITION"
FLOOR_POSITION: Final = "__MAGNETAR_FLOOR_POSITION"
LINK_START: Final = "__MAGNETAR_LINK_START"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an entry was produced, and what came before it on the link that brought it.

    ``previous`` and ``floor`` are EARLIEST when nothing came before, and when the sender does not say, as Apache
    Pulsar does not: nothing can be found missing before such an entry.
    """

    cluster: str
    position: Position
    previous: Position = EARLIEST
    floor: Position = EARLIEST
    link_start: bool = False


def stamp(entry: bytes, origin: Origin) -> bytes:
    """Return the entry with ``origin`` in its metadata and a new checksum; nothing else changes.

    An entry that bears a stamp already is returned as it is: its source has stamped it. Raises RemoteProtocolError when
    its checksum does not match: a new one would hide the damage.
    """
    _require_intact(entry, origin)
    return entry if parse_metadata(entry).HasField("replicated_from") else _with_stamp(entry, origin)


def stamp_again(entry: bytes, origin: Origin) -> bytes:
    """Return a stamped entry with another stamp behind the one that it has; ``origin_of`` reads the last one.

    Raises RemoteProtocolError when its checksum does not match.
    """
    _require_intact(entry, origin)
    return _with_stamp(entry, origin)


def _require_intact(entry: bytes, origin: Origin) -> None:
    if not checksum_matches(entry):
        message = f"checksum of the entry at {origin.position} does not match"
        raise RemoteProtocolError(message)


def _with_stamp(entry: bytes, origin: Origin) -> bytes:
    """Return the entry with ``origin`` behind the rest of its metadata and a new checksum."""
    replicated_from = pb.MessageMetadata(replicated_from=origin.cluster).SerializePartialToString()
    return assemble(metadata_bytes(entry) + replicated_from + _properties(origin), payload_of(entry))


def read_origin(entry: bytes) -> Origin | None:
    """Read the stamp of an entry; see ``origin_of``."""
    return origin_of(parse_metadata(entry))


def origin_of(metadata: pb.MessageMetadata) -> Origin | None:
    """Read the stamp in ``metadata``; None for an entry that was produced in this cluster.

    Raises RequestError with PersistenceError, as Apache Pulsar answers, when the stamp has no source position or one
    that cannot be read.
    """
    if not metadata.HasField("replicated_from"):
        return None
    stamped: dict[str, str] = {}
    for prop in reversed(metadata.properties):
        stamped.setdefault(prop.key, prop.value)
        if prop.key == SOURCE_POSITION:
            break
    else:
        message = f"entry replicated from {metadata.replicated_from} has no {SOURCE_POSITION}"
        raise RequestError(ServerError.PersistenceError, message)
    previous = _position(stamped, PREVIOUS_POSITION, EARLIEST)
    return Origin(
        cluster=metadata.replicated_from,
        position=_position(stamped, SOURCE_POSITION, EARLIEST),
        previous=previous,
        floor=_position(stamped, FLOOR_POSITION, previous),
        link_start=stamped.get(LINK_START) == "true",
    )


def is_stamped(metadata: pb.MessageMetadata) -> bool:
    """Whether Magnetar replicated the entry: Apache Pulsar's replicator names no previous position."""
    for prop in reversed(metadata.properties):
        if prop.key == PREVIOUS_POSITION:
            return True
        if prop.key == SOURCE_POSITION:
            break
    return False


def _properties(origin: Origin) -> bytes:
    """The properties of a stamp, serialized, the source position first."""
    properties = _property(SOURCE_POSITION, str(origin.position)) + _property(PREVIOUS_POSITION, str(origin.previous))
    if origin.floor != origin.previous:
        properties += _property(FLOOR_POSITION, str(origin.floor))
    if origin.link_start:
        properties += _property(LINK_START, "true")
    return properties


def _property(key: str, value: str) -> bytes:
    """One element of ``MessageMetadata.properties`` (field 4; key is field 1 of it, value 2), as protobuf writes it.

    By hand in less than half the time, once per replicated entry. Every length is below 128, so one byte.
    """
    pair = b"\x0a%c%b\x12%c%b" % (len(key), key.encode(), len(value), value.encode())
    return b"\x22%c%b" % (len(pair), pair)


def _position(stamped: dict[str, str], key: str, default: Position) -> Position:
    """The position under ``key``, or ``default`` when there is none."""
    text = stamped.get(key)
    if text is None:
        return default
    try:
        if not isinstance(text, str):  # protobuf leaves as bytes what is not UTF-8
            text = repr(text)
        return Position.parse(text)
    except ValueError as error:
        message = f"{key}: {error}"
        raise RequestError(ServerError.PersistenceError, message) from None
