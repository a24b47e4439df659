"""The messages of a run of entries of one topic, parsed at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from magnetar.base.errors import RemoteProtocolError, RequestError
from magnetar.base.limits import MAX_MESSAGE_SIZE
from magnetar.spark.read.batches.boundaries import boundaries
from magnetar.spark.read.batches.fields import fields
from magnetar.spark.read.batches.octets import Octets
from magnetar.wire.entries.batch import BatchedMessage, decode_batch, decompress, encode_batch
from magnetar.wire.entries.entry import payload_of
from magnetar.wire.entries.origin import own_properties
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from magnetar.base.position import Position
    from magnetar.spark.read.batches.boundaries import Boundaries
    from magnetar.spark.read.batches.fields import Fields


WHOLE_SIZE_MAX = 256 * 2**20
"""Maximum bytes of a message that was put together from chunks, also before compression."""


class Stored(NamedTuple):
    """An entry as received, with its metadata parsed."""

    position: Position
    metadata: pb.MessageMetadata
    entry: bytes
    first_chunk: Position | None = None
    """Of a message that was put together from chunks: the position of the first one."""

    @property
    def messages(self) -> int:
        """Number of messages in the entry."""
        return max(1, self.metadata.num_messages_in_batch)


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of ``entries``, in order."""

    entries: Sequence[Stored]
    octets: Octets
    places: Boundaries
    fields: Fields
    batched: NDArray[np.bool_]
    """By entry: whether it is a batch."""


def parse(entries: Sequence[Stored], size_max: int = MAX_MESSAGE_SIZE) -> Messages:
    """Parse the messages of ``entries``, each of at most ``size_max`` bytes before compression.

    Raises RemoteProtocolError with the position of an entry that contradicts its metadata, and RequestError with that
    of one that is encrypted.
    """
    payloads = [_as_batch(stored, size_max) for stored in entries]
    messages = _parse(entries, payloads)
    strange = messages.places.wrong.copy()
    np.logical_or.at(strange, messages.places.batches, messages.fields.strange)
    if not strange.any():
        return messages
    for index in np.flatnonzero(strange).tolist():
        payloads[index] = _in_usual_form(entries[index], payloads[index], size_max)
    messages = _parse(entries, payloads)
    assert not messages.places.wrong.any()
    assert not messages.fields.strange.any()
    return messages


def _parse(entries: Sequence[Stored], payloads: Sequence[bytes]) -> Messages:
    octets = Octets(payloads)
    ends = np.cumsum([len(payload) for payload in payloads], dtype=np.int64)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    batched = np.array([stored.metadata.HasField("num_messages_in_batch") for stored in entries], np.bool_)
    counts = np.array([stored.messages for stored in entries], np.int64)
    counts[~batched] = 1
    places = boundaries(octets, starts, ends, counts)
    return Messages(entries, octets, places, fields(octets, places), batched)


def _as_batch(stored: Stored, size_max: int) -> bytes:
    """Return the decompressed payload of an entry; an entry without a batch becomes a batch of one message."""
    metadata = stored.metadata
    assert metadata.num_chunks_from_msg <= 1, "chunks are put together before"
    if stored.first_chunk is not None:
        size_max = WHOLE_SIZE_MAX
    try:
        payload = decompress(metadata, payload_of(stored.entry), size_max=size_max)
    except RequestError as error:
        text = f"entry {stored.position}: {error}\nhint: unit=entry reads encrypted entries as they are stored"
        raise RequestError(error.code, text) from error
    except RemoteProtocolError as error:
        raise _wrong(stored, error) from error
    if metadata.HasField("num_messages_in_batch"):
        return payload
    own = pb.SingleMessageMetadata(
        properties=own_properties(metadata),
        partition_key=metadata.partition_key if metadata.HasField("partition_key") else None,
        ordering_key=metadata.ordering_key if metadata.HasField("ordering_key") else None,
        event_time=metadata.event_time,
        partition_key_b64_encoded=metadata.partition_key_b64_encoded,
        sequence_id=metadata.sequence_id,
        null_value=metadata.null_value,
        null_partition_key=metadata.null_partition_key,
    )
    return encode_batch([BatchedMessage(own, payload)])


def _in_usual_form(stored: Stored, payload: bytes, size_max: int) -> bytes:
    """Return the batch with the known fields of each message in their usual order.

    Raises RemoteProtocolError if the payload contradicts its metadata.
    """
    plain = pb.MessageMetadata(num_messages_in_batch=stored.messages)
    try:
        messages = decode_batch(plain, payload, size_max=size_max)
    except RemoteProtocolError as error:
        raise _wrong(stored, error) from error
    for message in messages:
        message.metadata.DiscardUnknownFields()
    return encode_batch(messages)


def _wrong(stored: Stored, error: RemoteProtocolError) -> RemoteProtocolError:
    return RemoteProtocolError(f"entry {stored.position}: {error}")
