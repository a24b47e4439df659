"""Sequence ids of the messages of an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.broker.publish.sequence_ids import highest_of, signed
from magnetar.wire.entries.batch import last_sequence_id
from magnetar.wire.entries.entry import parse_metadata, payload_of
from magnetar.wire.entries.markers import marker_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.publish.interfaces import SendHead
    from magnetar.wire.proto import pulsar_api_pb2 as pb
    from magnetar.wire.proto.partial_pb2 import MetadataWithoutLists


def completed_by(metadata: pb.MessageMetadata, entry: bytes) -> tuple[str, int] | None:
    """Return the producer of an entry with this metadata, and the sequence id of the last message that it completes.

    None if the entry completes no message of a producer: a marker, or a chunk of a message that is not its last.
    """
    if marker_type(metadata) is not None or not is_whole(metadata):
        return None
    numbers = metadata.sequence_id, metadata.highest_sequence_id, metadata.num_messages_in_batch
    return metadata.producer_name, highest_in(entry, numbers)


def is_whole(metadata: pb.MessageMetadata | MetadataWithoutLists) -> bool:
    """Return whether the entry completes a message; all chunks of a message have the same sequence id."""
    return metadata.chunk_id >= metadata.num_chunks_from_msg - 1


def highest_in(entry: bytes, head: SendHead, note: Callable[[MagnetarError], None] | None = None) -> int:
    """Return the sequence id of an entry's last message, from the metadata, from the message, or by counting.

    C++ and Python clients state only the sequence id of the first message of a batch, and later ones need not be
    consecutive. Each message has its own sequence id. It is unknown only in an encrypted batch. ``note`` is called
    with the reason if a batch cannot be opened.
    """
    sequence_id, highest_sequence_id, num_messages = head
    highest = highest_of(signed(sequence_id), signed(highest_sequence_id), num_messages)
    if num_messages > 1 and not highest_sequence_id:
        try:
            own = last_sequence_id(parse_metadata(entry), payload_of(entry))
        except MagnetarError as error:
            own = None
            if note is not None:
                note(error)
        if own is not None and signed(own) > highest:
            return signed(own)
    return highest
