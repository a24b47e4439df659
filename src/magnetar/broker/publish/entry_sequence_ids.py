"""The sequence ids of the messages that an entry brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.broker.publish.sequence_ids import highest_of
from magnetar.wire.entries.batch import last_sequence_id
from magnetar.wire.entries.entry import parse_metadata, payload_of
from magnetar.wire.entries.markers import marker_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.publish.interfaces import SendHead
    from magnetar.wire.proto import pulsar_api_pb2 as pb


def completed_by(metadata: pb.MessageMetadata, entry: bytes) -> tuple[str, int] | None:
    """The producer of an entry, whose metadata is this, and the sequence id of the last message complete with it.

    None for what completes no message of a producer's: a marker, and every chunk of a message but its last.
    """
    if marker_type(metadata) is not None or not is_whole(metadata):
        return None
    numbers = metadata.sequence_id, metadata.highest_sequence_id, metadata.num_messages_in_batch
    return metadata.producer_name, highest_in(entry, numbers)


def is_whole(metadata: pb.MessageMetadata) -> bool:
    """Whether the entry ends with the end of a message; all chunks of one bear the same sequence id."""
    return metadata.chunk_id >= metadata.num_chunks_from_msg - 1


def highest_in(entry: bytes, head: SendHead, note: Callable[[MagnetarError], None] | None = None) -> int:
    """The sequence id of an entry's last message: named, or born by it, or counted.

    Clients in C++, and Python's, name only the first message of a batch, and an application may leave holes behind it;
    but each message bears its own sequence id. Only of an encrypted batch holes remain unknown.
    ``note`` is told why a batch cannot be opened.
    """
    sequence_id, highest_sequence_id, num_messages = head
    highest = highest_of(sequence_id, highest_sequence_id, num_messages)
    if num_messages > 1 and not highest_sequence_id:
        try:
            own = last_sequence_id(parse_metadata(entry), payload_of(entry))
        except MagnetarError as error:
            own = None
            if note is not None:
                note(error)
        if own is not None and own > highest:
            return own
    return highest
