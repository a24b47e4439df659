"""Batches: the messages inside one entry, and their compression.

The payload of a batch, before compression, repeats ``u32 size, SingleMessageMetadata, payload``. Clients that read
messages decode it; a broker does so only to deduplicate the messages of a batch.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.base.limits import MAX_MESSAGE_SIZE, OPENED_BATCH_MESSAGES_MAX, Limit
from magnetar.wire import varint
from magnetar.wire.proto import partial_pb2 as partial
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyarrow import Codec

MetadataT = TypeVar("MetadataT", pb.SingleMessageMetadata, partial.MessageInBatch)

_SIZE_LENGTH = 4
_pack_size = struct.Struct(">I").pack
_read_size = struct.Struct(">I").unpack_from

_PAYLOAD_SIZE = 0x18
"""The tag of ``SingleMessageMetadata.payload_size``."""

# Arrow's names of the formats that Pulsar's clients write, besides ZLIB.
_ARROW_CODECS = {pb.LZ4: "lz4_raw", pb.ZSTD: "zstd", pb.SNAPPY: "snappy"}


@dataclass(frozen=True, slots=True)
class BatchedMessage:
    """One message of a batch."""

    metadata: pb.SingleMessageMetadata
    payload: bytes


def encode_batch(messages: Iterable[BatchedMessage]) -> bytes:
    """Encode messages as the payload of an entry, uncompressed; ``payload_size`` of each metadata is overwritten."""
    parts: list[bytes] = []
    for message in messages:
        metadata = pb.SingleMessageMetadata()
        metadata.CopyFrom(message.metadata)
        metadata.payload_size = len(message.payload)
        serialized = metadata.SerializeToString()
        parts += (_pack_size(len(serialized)), serialized, message.payload)
    return b"".join(parts)


def decode_batch(
    metadata: pb.MessageMetadata,
    payload: bytes | memoryview,
    *,
    size_max: int = MAX_MESSAGE_SIZE,
) -> list[BatchedMessage]:
    """Decode the messages of a batch from its stored payload.

    Raises RemoteProtocolError when the payload contradicts its metadata, and the errors of ``decompress``.
    """
    data = decompress(metadata, payload, size_max=size_max)
    messages: list[BatchedMessage] = []
    offset = 0
    for _ in range(metadata.num_messages_in_batch):
        own, start, offset = _parse_message(pb.SingleMessageMetadata.FromString, data, offset)
        messages.append(BatchedMessage(own, data[start:offset]))
    _check_end(metadata, data, offset)
    return messages


class Member(NamedTuple):
    """A message of a batch, with the metadata not parsed."""

    sequence_id: int | None
    """None if the message has none of its own."""
    start: int
    """Start of the message in the decompressed payload."""
    end: int
    """End of the message, exclusive."""


def members_of(metadata: pb.MessageMetadata, data: bytes) -> Iterator[Member]:
    """Yield the messages of a batch from its decompressed payload.

    Raises RemoteProtocolError when the payload contradicts its metadata.
    """
    offset = 0
    for _ in range(metadata.num_messages_in_batch):
        own, _, end = _parse_message(partial.MessageInBatch.FromString, data, offset)
        yield Member(own.sequence_id if own.HasField("sequence_id") else None, offset, end)
        offset = end
    _check_end(metadata, data, offset)


def with_property(metadata: pb.MessageMetadata, data: bytes, added: pb.KeyValue) -> bytes:
    """Return a decompressed batch with a property of each message, in place of one of its name.

    Raises RemoteProtocolError when the payload contradicts its metadata.
    """
    key, appended = added.key.encode(), pb.SingleMessageMetadata(properties=[added]).SerializePartialToString()
    parts: list[bytes] = []
    offset = 0
    for _ in range(metadata.num_messages_in_batch):
        _, payload, end = _parse_message(partial.MessageInBatch.FromString, data, offset)
        serialized = data[offset + _SIZE_LENGTH : payload]
        if key in serialized:
            serialized = _without_property(serialized, added.key)
        parts += (_pack_size(len(serialized) + len(appended)), serialized, appended, data[payload:end])
        offset = end
    _check_end(metadata, data, offset)
    return b"".join(parts)


def _without_property(serialized: bytes, key: str) -> bytes:
    """Return the serialized metadata of a message without the properties of a name."""
    metadata = pb.SingleMessageMetadata.FromString(serialized)
    kept = [each for each in metadata.properties if each.key != key]
    del metadata.properties[:]
    metadata.properties.extend(kept)
    return metadata.SerializePartialToString()


def last_sequence_id(metadata: pb.MessageMetadata, payload: bytes | memoryview) -> int | None:
    """Return the sequence id of the last message of a batch; None when the message has none of its own.

    Raises as ``decode_batch``, and RequestError as ``check_opened``. Only the sizes of the messages before the last one
    are read.
    """
    check_opened(metadata)
    data = decompress(metadata, payload)
    offset = 0
    try:
        for _ in range(metadata.num_messages_in_batch - 1):
            start = offset + _SIZE_LENGTH
            size = _read_size(data, offset)[0]
            if data[start] == _PAYLOAD_SIZE:  # the first field, as in most messages
                first = data[start + 1]
                payload_size = first if first < varint.MORE else varint.read(data, start + 1)[0]
            else:
                payload_size = partial.MessageInBatch.FromString(data[start : start + size]).payload_size
            offset = start + size + max(payload_size, 0)
    except (struct.error, IndexError, OverflowError, DecodeError) as error:
        message = f"batched message at {offset} cannot be parsed: {error}"
        raise RemoteProtocolError(message) from error
    last, _, _ = _parse_message(partial.MessageInBatch.FromString, data, offset)
    return last.sequence_id if last.HasField("sequence_id") else None


def check_opened(metadata: pb.MessageMetadata) -> None:
    """Raise RequestError for a batch with more than OPENED_BATCH_MESSAGES_MAX messages."""
    if metadata.num_messages_in_batch > OPENED_BATCH_MESSAGES_MAX:
        size, limit = metadata.num_messages_in_batch, Limit.OPENED_BATCH_MESSAGES
        message = f"a batch of {size} messages; batches of up to {OPENED_BATCH_MESSAGES_MAX} are opened ({limit})"
        raise RequestError(ServerError.NotAllowedError, message, limit)


def compression_named(name: str) -> pb.CompressionType.ValueType:
    """Return the compression with a name in any case; raises ValueError with the known names."""
    known = pb.CompressionType.keys()
    if name.upper() not in known:
        message = f"{name!r} is not one of {', '.join(known)}"
        raise ValueError(message)
    return pb.CompressionType.Value(name.upper())


def compress(payload: bytes, compression: pb.CompressionType.ValueType) -> bytes:
    """Compress as Pulsar's clients do; the metadata's ``uncompressed_size`` is the length of ``payload``."""
    if compression == pb.NONE:
        return payload
    if compression == pb.ZLIB:
        return zlib.compress(payload)
    return bytes(_codec(compression).compress(payload, asbytes=True))


def decompress(
    metadata: pb.MessageMetadata,
    payload: bytes | memoryview,
    *,
    size_max: int = MAX_MESSAGE_SIZE,
) -> bytes:
    """Return the decompressed payload, of at most ``size_max`` bytes.

    Raises RequestError with NotAllowedError for an encrypted payload, because only its consumers have the key, and
    RemoteProtocolError for a payload that cannot be decompressed to ``uncompressed_size`` bytes.
    """
    if metadata.encryption_keys:
        message = "the payload is encrypted"
        raise RequestError(ServerError.NotAllowedError, message)
    if metadata.compression == pb.NONE:
        return bytes(payload)
    size = metadata.uncompressed_size
    if size > size_max:
        message = f"payload of {size} bytes before compression exceeds the limit of {size_max}"
        raise RemoteProtocolError(message)
    try:
        data = _decompress(metadata.compression, payload, size)
    except (zlib.error, OSError, ValueError) as error:
        message = f"payload cannot be decompressed: {error}"
        raise RemoteProtocolError(message) from error
    if len(data) != size:
        message = f"payload decompresses to {len(data)} bytes, not to {size}"
        raise RemoteProtocolError(message)
    return data


def _decompress(compression: pb.CompressionType.ValueType, payload: bytes | memoryview, size: int) -> bytes:
    """Decompress to ``size`` bytes; raises zlib.error, OSError or ValueError on failure."""
    if compression == pb.ZLIB:
        inflater = zlib.decompressobj()
        data = inflater.decompress(payload, size + 1)
        if not inflater.eof:
            message = f"no end of the stream within {size} bytes"
            raise zlib.error(message)
        return data
    codec = _codec(compression)
    # Arrow pads a result that is too short with arbitrary memory without an error, but refuses a result that is too
    # long.
    if size > 0 and _fits(codec, payload, size - 1):
        message = f"fewer than {size} bytes"
        raise ValueError(message)
    return bytes(codec.decompress(payload, decompressed_size=size, asbytes=True))


def _fits(codec: Codec, payload: bytes | memoryview, size: int) -> bool:
    """Whether the payload decompresses to at most ``size`` bytes."""
    try:
        codec.decompress(payload, decompressed_size=size)
    except (OSError, ValueError):
        return False
    return True


def _codec(compression: pb.CompressionType.ValueType) -> Codec:
    """Return Arrow's codec, loaded on first use: most brokers and clients never decompress a payload."""
    from pyarrow import Codec  # noqa: PLC0415 - a large library

    return Codec(_ARROW_CODECS[compression])


def _check_end(metadata: pb.MessageMetadata, data: bytes, end: int) -> None:
    """Raise RemoteProtocolError if the messages of a batch end before the data."""
    if end != len(data):
        message = f"batch of {metadata.num_messages_in_batch} messages ends at {end} of {len(data)} bytes"
        raise RemoteProtocolError(message)


def _parse_message(read: Callable[[bytes], MetadataT], data: bytes, offset: int) -> tuple[MetadataT, int, int]:
    """Parse the metadata of the message at ``offset``; return it, and the start and the end of its payload."""
    start = offset + _SIZE_LENGTH
    end = start + _read_size(data, offset)[0] if start <= len(data) else start
    try:
        metadata = read(data[start:end])
    except DecodeError as error:
        message = f"metadata of a batched message cannot be parsed: {error}"
        raise RemoteProtocolError(message) from error
    payload_end = end + metadata.payload_size
    if not metadata.IsInitialized() or not end <= payload_end <= len(data):
        message = f"batched message at {offset} does not fit the {len(data)} bytes of its batch"
        raise RemoteProtocolError(message)
    return metadata, end, payload_end
