"""The contents of entries: single messages, batches, compressed messages and chunks. A text identifies each entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.wire.entries.batch import BatchedMessage, compress, decode_batch, decompress, encode_batch
from magnetar.wire.entries.entry import build_entry, metadata_bytes, parse_metadata, payload_of
from magnetar.wire.entries.origin import origin_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEMBER = "#"
"""Separator between the text of a batch and the index of a message."""

_CHUNK_BYTES = 32
"""Size of every chunk; its text is padded with zero bytes."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message, or a batch of messages, to publish."""

    publish_time_ms: int
    members: int = 1
    is_batch: bool = False
    """Whether a single message is published as a batch. Several messages always are."""
    is_compressed: bool = False
    names_highest: bool = True
    """Whether a batch has ``highest_sequence_id``: Pulsar's Java client sets it, the C++ client does not."""
    chunks: int = 1
    """Number of chunks. A chunked message is neither a batch nor compressed."""
    deliver_at_ms: int = 0
    """0: no delay."""
    key: str = ""
    """Empty: no key."""
    replicate_to: Sequence[str] = ()
    """Empty: all clusters."""
    padding: int = 0
    """Number of bytes that are added to the entry."""

    def metadata(self, producer: str, sequence_id: int) -> list[pb.MessageMetadata]:
        """Return the metadata of each entry, in order."""
        common = pb.MessageMetadata(producer_name=producer, sequence_id=sequence_id, publish_time=self.publish_time_ms)
        if self.deliver_at_ms:
            common.deliver_at_time = self.deliver_at_ms
        if self.key:
            common.partition_key = self.key
        common.replicate_to.extend(self.replicate_to)
        if self.padding:
            common.properties.add(key="padding", value="x" * self.padding)
        if self.chunks > 1:
            return [self._chunk(common, chunk_id) for chunk_id in range(self.chunks)]
        if self.is_batch or self.members > 1:
            common.num_messages_in_batch = self.members
            if self.members > 1 and self.names_highest:
                common.highest_sequence_id = sequence_id + self.members - 1
        if self.is_compressed:
            common.compression = pb.ZLIB
        return [common]

    def _chunk(self, common: pb.MessageMetadata, chunk_id: int) -> pb.MessageMetadata:
        metadata = pb.MessageMetadata()
        metadata.CopyFrom(common)
        metadata.uuid = f"{common.producer_name}-{common.sequence_id}"
        metadata.chunk_id, metadata.num_chunks_from_msg = chunk_id, self.chunks
        metadata.total_chunk_msg_size = self.chunks * _CHUNK_BYTES
        return metadata


def build(metadata: pb.MessageMetadata, text: str) -> bytes:
    """Build the entry with this text. Sets ``uncompressed_size`` in the metadata of a compressed entry."""
    payload = text.encode()
    if metadata.HasField("num_messages_in_batch"):
        payload = encode_batch(_member(metadata, text, index) for index in range(metadata.num_messages_in_batch))
    elif metadata.num_chunks_from_msg > 1:
        payload = payload.ljust(_CHUNK_BYTES, b"\0")
    if metadata.compression != pb.NONE:
        metadata.uncompressed_size = len(payload)
    return build_entry(metadata, compress(payload, metadata.compression))


def _member(metadata: pb.MessageMetadata, text: str, index: int) -> BatchedMessage:
    own = pb.SingleMessageMetadata(sequence_id=metadata.sequence_id + index, event_time=metadata.publish_time + index)
    own.properties.add(key="member", value=str(index))
    if metadata.partition_key:
        own.partition_key = metadata.partition_key
    return BatchedMessage(own, f"{text}{_MEMBER}{index}".encode())


def text_in(metadata: pb.MessageMetadata, entry: bytes) -> str:
    """Return the text of an entry with this metadata; empty if the entry cannot be decoded."""
    payload = payload_of(entry)
    try:
        if metadata.HasField("num_messages_in_batch"):
            content = decode_batch(metadata, payload)[0].payload
        else:
            content = decompress(metadata, payload)
        return content.decode().partition(_MEMBER)[0].rstrip("\0")
    except (MagnetarError, UnicodeDecodeError):
        return ""


def is_same(published: bytes, entry: bytes) -> bool:
    """Return whether an entry equals the published one in every byte, apart from the stamp that a link appends."""
    if payload_of(entry) != payload_of(published):
        return False
    ours, theirs = metadata_bytes(published), metadata_bytes(entry)
    return ours == theirs or (theirs.startswith(ours) and origin_of(parse_metadata(entry)) is not None)
