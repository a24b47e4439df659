"""Entries, Pulsar's *headersAndPayload*: the unit that ledgers store and that SEND and MESSAGE carry.

An entry is ``u16 0x0e01, u32 CRC32C`` (both optional), ``u32 metadataSize, MessageMetadata, payload``. The checksum
covers all bytes after itself. A metadata size never equals the magic number: it would exceed every frame.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import google_crc32c
from google.protobuf.message import DecodeError

from magnetar.base.errors import ChecksumMismatchError, RemoteProtocolError
from magnetar.base.limits import BATCH_MESSAGES_MAX, BATCHED_MESSAGE_SIZE_MIN, Limit
from magnetar.wire.entries.plain_metadata import (
    batch_fits,
    bounded,
    is_plain,
    messages_and_key_in_plain,
    messages_of,
    publish_time_in_plain,
)
from magnetar.wire.proto import partial_pb2 as partial
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MetadataT = TypeVar("MetadataT", pb.MessageMetadata, partial.MetadataWithoutLists, partial.ReplicationClusters)

MAGIC = b"\x0e\x01"
CHECKSUMMED_START = 6
"""Offset of the checksummed part in an entry with a checksum."""

_SIZE_LENGTH = 4
METADATA_START = CHECKSUMMED_START + _SIZE_LENGTH
"""Offset of the metadata in an entry with a checksum."""

_NO_KEY = b"NONE_KEY"
"""The sticky key of an entry whose key cannot be decoded."""

read_head = struct.Struct(">2sII").unpack_from
pack_size = struct.Struct(">I").pack
_read_size = struct.Struct(">I").unpack_from
_read_metadata = pb.MessageMetadata.FromString
_read_without_lists = partial.MetadataWithoutLists.FromString
_read_clusters = partial.ReplicationClusters.FromString


class Chunk(NamedTuple):
    """A part of a message that is too large for one entry (PIP-37)."""

    message: str
    """Id of the message, the same for all of its chunks."""
    is_last: bool


def checksum_matches(entry: bytes) -> bool:
    """Whether the entry matches its checksum; True when it has none."""
    if not entry.startswith(MAGIC):
        return True
    if len(entry) < CHECKSUMMED_START:
        return False
    (expected,) = _read_size(entry, len(MAGIC))
    return bool(google_crc32c.value(entry[CHECKSUMMED_START:]) == expected)


def proves_itself(entry: bytes) -> bool:
    """Whether the entry has a checksum and matches it."""
    return entry.startswith(MAGIC) and checksum_matches(entry)


def split_checksum(entry: bytes) -> tuple[int | None, bytes, bytes]:
    """Return the stated checksum, the bytes before the checksummed part, and the checksummed part.

    An entry without a checksum gives None, no bytes, and the entry.
    """
    if not entry.startswith(MAGIC) or len(entry) < CHECKSUMMED_START:
        return None, b"", entry
    (stated,) = _read_size(entry, len(MAGIC))
    return stated, entry[:CHECKSUMMED_START], entry[CHECKSUMMED_START:]


def with_checksum(entry: bytes) -> bytes:
    """Return the entry with the magic number and the right checksum in place of its first bytes.

    An entry that is too short for them is returned unchanged.
    """
    if len(entry) < CHECKSUMMED_START:
        return entry
    content = entry[CHECKSUMMED_START:]
    return MAGIC + pack_size(google_crc32c.value(content)) + content


def check_checksum(entry: bytes) -> None:
    """Raise ChecksumMismatchError if ``checksum_matches`` is False."""
    if not checksum_matches(entry):
        raise _mismatch()


def _mismatch() -> ChecksumMismatchError:
    return ChecksumMismatchError("checksum of the entry does not match")


def check(entry: bytes) -> pb.MessageMetadata | None:
    """Raise ChecksumMismatchError or RemoteProtocolError if ``checksum_matches`` or ``parse_metadata`` would fail.

    Runs once per published message, so one regular expression recognizes the usual form. Returns the metadata if it is
    not plain and may affect dispatch, or if it names more messages than the entry can hold uncompressed.
    """
    if len(entry) >= METADATA_START:
        magic, checksum, size = read_head(entry)
        if magic == MAGIC and google_crc32c.value(entry[CHECKSUMMED_START:]) == checksum:
            end = METADATA_START + size
            plain = is_plain(entry, METADATA_START, end) if end <= len(entry) else None
            if plain is not None and (plain.lastindex is None or batch_fits(plain[1], len(entry) - end)):
                return None
            return parse_metadata(entry)
    check_checksum(entry)
    return parse_metadata(entry)


def parse_metadata(entry: bytes) -> pb.MessageMetadata:
    """Return the entry's metadata; raises RemoteProtocolError if it is missing or cannot be parsed."""
    return _parsed(_read_metadata, entry)


def parse_without_lists(entry: bytes) -> partial.MetadataWithoutLists:
    """Return some of the entry's metadata; raises RemoteProtocolError as ``parse_metadata``.

    Lists are skipped, so that the time does not depend on their lengths: 1.5 ms per million bytes.
    """
    return _parsed(_read_without_lists, entry)


def _parsed(read: Callable[[bytes], MetadataT], entry: bytes) -> MetadataT:
    try:
        metadata = read(metadata_bytes(entry))
    except DecodeError as error:
        message = f"message metadata cannot be parsed: {error}"
        raise RemoteProtocolError(message) from error
    if not metadata.IsInitialized() or not isinstance(metadata.producer_name, str):
        message = "message metadata lacks required fields, or its producer name is not UTF-8"
        raise RemoteProtocolError(message)
    return metadata


def metadata_size(entry: bytes) -> int:
    """Return the number of bytes of metadata that the entry states, which may exceed the entry; 0 if it states none."""
    start = CHECKSUMMED_START if entry.startswith(MAGIC) else 0
    return int(_read_size(entry, start)[0]) if start + _SIZE_LENGTH <= len(entry) else 0


def metadata_bytes(entry: bytes) -> bytes:
    """Return the serialized metadata as the producer wrote it; raises RemoteProtocolError if its size is wrong."""
    start, end = metadata_span(entry)
    return entry[start:end]


def payload_of(entry: bytes) -> memoryview:
    """Return the payload as stored, compressed and encrypted; raises RemoteProtocolError as ``metadata_bytes``."""
    return memoryview(entry)[metadata_span(entry)[1] :]


def publish_time_ms(entry: bytes) -> int:
    """Return the producer's publish time, in milliseconds since the epoch."""
    start, end = metadata_span(entry)
    published_ms = publish_time_in_plain(entry, start, end)
    return parse_without_lists(entry).publish_time if published_ms is None else published_ms


def messages_in(entry: bytes) -> int:
    """Return the number of messages in the entry, at least 1."""
    return messages_delivery_and_chunk(entry)[0]


def messages_and_delivery(entry: bytes) -> tuple[int, int]:
    """Return the number of messages, at least 1, and ``deliver_at_time`` (0: immediately)."""
    return messages_delivery_and_chunk(entry)[:2]


def messages_delivery_and_chunk(entry: bytes) -> tuple[int, int, str]:
    """Return the values of ``messages_and_delivery`` and the id of the message of a chunk, for dispatch.

    The id is the same for all chunks of a message (``uuid``), and empty for an entry that is not a chunk. Called for
    each dispatched entry, so the most frequent form is read in this function.
    """
    if len(entry) >= METADATA_START:
        magic, _, size = read_head(entry)
        end = METADATA_START + size
        plain = is_plain(entry, METADATA_START, end) if magic == MAGIC and end <= len(entry) else None
        if plain is not None:
            return (1, 0, "") if plain.lastindex is None else (messages_of(plain[1]), 0, "")
    metadata = parse_without_lists(entry)
    return bounded(metadata.num_messages_in_batch), metadata.deliver_at_time, metadata.uuid


def messages_delivery_and_key(entry: bytes) -> tuple[int, int, bytes, Chunk | None]:
    """Return the values of ``messages_and_delivery``, the sticky key (protocol: Key_Shared), and the chunk, or None.

    A Key_Shared subscription keeps messages with the same sticky key in order. The key is that of the whole entry: a
    batch is not opened, so its messages should have one key.
    """
    start, end = metadata_span(entry)
    plain = messages_and_key_in_plain(entry, start, end)
    if plain is not None:
        return plain[0], 0, plain[1], None
    metadata = parse_without_lists(entry)
    is_last = metadata.chunk_id >= metadata.num_chunks_from_msg - 1
    chunk = Chunk(metadata.uuid, is_last) if metadata.uuid else None
    return bounded(metadata.num_messages_in_batch), metadata.deliver_at_time, _sticky_key(metadata), chunk


def replicate_to(entry: bytes) -> Sequence[str]:
    """Return the clusters to which the entry is replicated; empty for all."""
    start, end = metadata_span(entry)
    return () if is_plain(entry, start, end) else _parsed(_read_clusters, entry).replicate_to


def build_entry(metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    """Build an entry with a checksum from metadata and the payload of a message or a batch."""
    return assemble(metadata.SerializeToString(), payload)


SCHEMA_VERSION_KEY = b"\x82\x01"
"""The key of the field ``schema_version`` in serialized metadata."""


def schema_version(entry: bytes) -> bytes:
    """Return the version of the schema of an entry; empty if it has none."""
    if entry.find(SCHEMA_VERSION_KEY, *metadata_span(entry)) < 0:
        return b""
    return parse_metadata(entry).schema_version


def assemble(metadata: bytes, payload: bytes | memoryview) -> bytes:
    """Build an entry with a checksum from serialized metadata and a payload."""
    sized, payload = pack_size(len(metadata)) + metadata, bytes(payload)
    checksum = google_crc32c.extend(google_crc32c.value(sized), payload)  # without a copy of both together
    return b"".join((MAGIC, pack_size(checksum), sized, payload))


def intact_parts(entry: bytes) -> tuple[bytes, bytes]:
    """Return the serialized metadata and the payload of an entry, which is checked against its checksum if it has one.

    Raises ChecksumMismatchError, or RemoteProtocolError as ``metadata_bytes``.
    """
    try:
        start, end = metadata_span(entry)
    except RemoteProtocolError:
        check_checksum(entry)
        raise
    payload = entry[end:]
    if start == METADATA_START:
        content = google_crc32c.extend(google_crc32c.value(entry[CHECKSUMMED_START:end]), payload)
        if content != _read_size(entry, len(MAGIC))[0]:
            raise _mismatch()
    return entry[start:end], payload


def metadata_span(entry: bytes) -> tuple[int, int]:
    """Return the start (inclusive) and the end (exclusive) of the serialized metadata.

    Raises RemoteProtocolError if its size is wrong.
    """
    start = (CHECKSUMMED_START if entry.startswith(MAGIC) else 0) + _SIZE_LENGTH
    if start > len(entry):
        message = f"entry of {len(entry)} bytes has no metadata size"
        raise RemoteProtocolError(message)
    end = start + _read_size(entry, start - _SIZE_LENGTH)[0]
    if end > len(entry):
        message = f"message metadata of {end - start} bytes exceeds its entry of {len(entry)}"
        raise RemoteProtocolError(message)
    return start, end


def check_count(metadata: pb.MessageMetadata, entry: bytes) -> None:
    """Raise RemoteProtocolError for a batch that is too small for the number of messages in its metadata."""
    messages = metadata.num_messages_in_batch
    if messages <= 1:
        return
    size = len(payload_of(entry)) if metadata.compression == pb.NONE else metadata.uncompressed_size
    if messages > size // BATCHED_MESSAGE_SIZE_MIN:
        message = f"a batch of {size} bytes cannot hold {messages} messages"
        raise RemoteProtocolError(message)
    if messages > BATCH_MESSAGES_MAX:
        message = f"a batch of {messages} messages exceeds the limit of {BATCH_MESSAGES_MAX} ({Limit.BATCH_MESSAGES})"
        raise RemoteProtocolError(message, Limit.BATCH_MESSAGES)


def is_compressed(entry: bytes) -> bool:
    """Whether the payload is compressed; False for an entry whose metadata cannot be read."""
    try:
        return parse_metadata(entry).compression != pb.NONE
    except RemoteProtocolError:
        return False


def _sticky_key(metadata: partial.MetadataWithoutLists) -> bytes:
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    key: str | bytes = metadata.partition_key
    encoded = key if isinstance(key, bytes) else key.encode()  # protobuf returns a string that is not UTF-8 as bytes
    if not metadata.partition_key_b64_encoded:
        return encoded
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return _NO_KEY
