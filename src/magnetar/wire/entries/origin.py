"""The origin stamp of an entry: the cluster where it was produced, and its position there.

A replicated entry has in its metadata, after those of its producer:

* ``replicated_from``, and the property ``__MSG_PROP_REPL_SOURCE_POSITION``, ``ledger:entry`` at the origin. Apache
  Pulsar writes these two as well, and applications can read them.
* ``link_place``, words with a space between them: the origin position of the entry sent before it on the same link; the
  floor, if it differs from the previous position: between it and the entry the origin produced nothing, for this link
  or any other; ``start`` on the first entry of a link that starts after entries it will never carry. No other client
  knows this field, so it does not reach applications.

The stamp is appended to the serialized metadata. Protobuf merges concatenated messages, so every byte of the producer
is kept, including fields unknown here. Of a field that is not repeated the last value counts, whole. So a producer
cannot set any part of a stamp. Earlier releases wrote properties instead of ``link_place`` (``earlier_stamps.py``).

Only the schema version is replaced, by that of the same schema in the target: it is a number of the source's registry,
and means another schema, or none, in the target.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from magnetar.base.errors import ChecksumMismatchError, RemoteProtocolError, RequestError, ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.entries.earlier_stamps import place_in, properties_of
from magnetar.wire.entries.entry import SCHEMA_VERSION_KEY, assemble, intact_parts, parse_metadata
from magnetar.wire.entries.plain_metadata import is_plain, messages_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE_POSITION: Final = "__MSG_PROP_REPL_SOURCE_POSITION"
LINK_PLACE_KEY: Final = b"\xc2\x3e"
"""The key of the field ``link_place`` in serialized metadata."""

_LINK_START: Final = "start"


class Origin(NamedTuple):
    """The origin of an entry, and the entry before it on its link.

    ``previous`` and ``floor`` are EARLIEST if there is no earlier entry, or if the sender (Apache Pulsar) does not
    state them: no gap can be detected before such an entry.
    """

    cluster: str
    position: Position
    previous: Position = EARLIEST
    floor: Position = EARLIEST
    link_start: bool = False


def stamp(entry: bytes, origin: Origin, schema_version: bytes = b"", *, as_properties: bool = False) -> bytes:
    """Return the entry with ``origin`` and the ``schema_version`` of the target in its metadata, and a new checksum.

    Without ``schema_version``, the entry gets none. All other bytes are unchanged. An entry that its source has stamped
    already gets no further stamp. ``as_properties`` writes the place on the link in the form of earlier releases.
    Raises RemoteProtocolError if the checksum does not match: a new one would hide the damage.
    """
    return stamp_and_count(entry, origin, schema_version, as_properties=as_properties)[0]


def stamp_and_count(
    entry: bytes, origin: Origin, schema_version: bytes = b"", *, as_properties: bool = False
) -> tuple[bytes, int]:
    """Return the result of ``stamp``, and the number of messages if the metadata is plain, otherwise 0."""
    serialized, payload = _intact_parts(entry, origin)
    plain = is_plain(serialized, 0, len(serialized))
    messages = 0 if plain is None else messages_of(plain[1])
    if not schema_version and plain is not None and SCHEMA_VERSION_KEY not in serialized:
        # The usual form, without a stamp and without a schema: protobuf needs more time than everything else here.
        return assemble(_with_stamp(serialized, origin, as_properties=as_properties), payload), messages
    metadata = parse_metadata(entry)
    if metadata.schema_version != schema_version or metadata.HasField("schema_version") > bool(schema_version):
        metadata.ClearField("schema_version")
        if schema_version:
            metadata.schema_version = schema_version
        serialized = metadata.SerializePartialToString()
    if not metadata.HasField("replicated_from"):
        serialized = _with_stamp(serialized, origin, as_properties=as_properties)
    return assemble(serialized, payload), messages


def stamp_again(entry: bytes, origin: Origin) -> bytes:
    """Return a stamped entry with a second stamp after its first one; ``origin_of`` reads the last one.

    Raises RemoteProtocolError if the checksum does not match.
    """
    metadata, payload = _intact_parts(entry, origin)
    return assemble(_with_stamp(metadata, origin), payload)


def _intact_parts(entry: bytes, origin: Origin) -> tuple[bytes, bytes]:
    """Return the serialized metadata and the payload."""
    try:
        return intact_parts(entry)
    except ChecksumMismatchError:
        message = f"checksum of the entry at {origin.position} does not match"
        raise RemoteProtocolError(message) from None


def _with_stamp(metadata: bytes, origin: Origin, *, as_properties: bool = False) -> bytes:
    """Return serialized metadata with ``origin`` at its end."""
    return metadata + replicated_from(origin.cluster) + (_earlier_place_of if as_properties else place_of)(origin)


@lru_cache
def replicated_from(cluster: str) -> bytes:
    """Return the serialized field with the name of the origin."""
    return pb.MessageMetadata(replicated_from=cluster).SerializePartialToString()


def read_origin(entry: bytes) -> Origin | None:
    """Return the stamp of an entry; see ``origin_of``."""
    return origin_of(parse_metadata(entry))


def origin_of(metadata: pb.MessageMetadata) -> Origin | None:
    """Return the stamp in ``metadata``; None for an entry that was produced in this cluster.

    Raises RequestError with PersistenceError, as Apache Pulsar does, if the source position is missing or cannot be
    parsed.
    """
    if not metadata.HasField("replicated_from"):
        return None
    source, stated = _stated_in(metadata)
    if source is None:
        message = f"entry replicated from {metadata.replicated_from} has no {SOURCE_POSITION}"
        raise RequestError(ServerError.PersistenceError, message)
    place, is_start = _place_in(stated)
    previous = _position("link_place", place[0]) if place else EARLIEST
    return Origin(
        cluster=metadata.replicated_from,
        position=_position(SOURCE_POSITION, source),
        previous=previous,
        floor=_position("link_place", place[1]) if len(place) > 1 else previous,
        link_start=is_start,
    )


def is_link_start(metadata: pb.MessageMetadata) -> bool:
    """Whether a link starts with the entry; see ``origin_of``."""
    return _place_in(_stated_in(metadata)[1])[1]


def _stated_in(metadata: pb.MessageMetadata) -> tuple[object, object]:
    """Return the texts of the source position, None if there is none, and of the place on the link.

    Both are strings, or bytes that are not UTF-8, which protobuf returns as they are. Properties after the source
    position are those of a stamp of an earlier release, and no producer can set them.
    """
    stamped: dict[str, str] = {}
    for prop in reversed(metadata.properties):
        if prop.key == SOURCE_POSITION:
            return prop.value, place_in(stamped, _LINK_START) if stamped else metadata.link_place
        stamped.setdefault(prop.key, prop.value)
    return None, metadata.link_place


def _place_in(text: object) -> tuple[list[str], bool]:
    """Return the texts of the previous position and the floor, as far as stated, and whether the link starts."""
    place = text.split() if isinstance(text, str) else [repr(text)]
    is_start = bool(place) and place[-1] == _LINK_START
    return place[:-1] if is_start else place, is_start


def own_properties(metadata: pb.MessageMetadata) -> Sequence[pb.KeyValue]:
    """Return the properties that the producer set, without those of the stamp."""
    if not metadata.HasField("replicated_from"):
        return metadata.properties
    keys = [prop.key for prop in metadata.properties]
    stamps = keys[::-1].index(SOURCE_POSITION) + 1 if SOURCE_POSITION in keys else 0
    return metadata.properties[: len(keys) - stamps]


def is_stamped(metadata: pb.MessageMetadata) -> bool:
    """Whether a Magnetar pipeline replicated the entry: Apache Pulsar's replicator does not state the place."""
    return bool(_stated_in(metadata)[1])


def place_of(origin: Origin) -> bytes:
    """Return the serialized fields of a stamp after ``replicated_from``: the source position, and the link's place."""
    place = str(origin.previous)
    if origin.floor != origin.previous:
        place += f" {origin.floor}"
    if origin.link_start:
        place += f" {_LINK_START}"
    source = str(origin.position)
    return b"%b%b%c%b" % (serialized_property(SOURCE_POSITION, source), LINK_PLACE_KEY, len(place), place.encode())


def _earlier_place_of(origin: Origin) -> bytes:
    """Return the fields of ``place_of`` in the form of earlier releases."""
    place = properties_of(origin.previous, origin.floor, link_start=origin.link_start)
    each = ((SOURCE_POSITION, str(origin.position)), *place)
    return b"".join(serialized_property(key, value) for key, value in each)


def serialized_property(key: str, value: str) -> bytes:
    """Serialize one element of ``MessageMetadata.properties`` (field 4; key is field 1 of it, value 2).

    Runs once per replicated entry; protobuf takes more than twice as long. Every length is below 128, so one byte.
    """
    pair = b"\x0a%c%b\x12%c%b" % (len(key), key.encode(), len(value), value.encode())
    return b"\x22%c%b" % (len(pair), pair)


def _position(key: str, text: object) -> Position:
    """Return the position that ``text``, the value of ``key``, states."""
    try:
        if not isinstance(text, str):  # protobuf returns a string that is not UTF-8 as bytes
            text = repr(text)
        return Position.parse(text)
    except ValueError as error:
        message = f"{key}: {error}"
        raise RequestError(ServerError.PersistenceError, message) from None
