"""Batches whose first messages are duplicates.

A restarted producer may pack its messages into other batches than before: a batch can begin with stored messages and
end with new ones. Dropping it would lose the new messages, storing it would repeat the others.
"""

from __future__ import annotations

from magnetar.wire.entries.batch import BatchedMessage, check_opened, compress, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of


def cut_batch(entry: bytes, lowest: int, pushed: int) -> bytes | None:
    """Return the entry without its messages up to sequence id ``pushed``; None if no message remains.

    ``lowest`` is the sequence id of the first message; a later message without its own has the next number. Raises
    MagnetarError if the batch cannot be opened, for example because it is encrypted.
    """
    metadata = parse_metadata(entry)
    kept: list[BatchedMessage] = []
    sequence_id = lowest - 1
    check_opened(metadata)
    for message in decode_batch(metadata, payload_of(entry)):
        own = message.metadata.HasField("sequence_id")
        sequence_id = message.metadata.sequence_id if own else sequence_id + 1
        if sequence_id > pushed:
            if not kept:
                metadata.sequence_id = sequence_id
            kept.append(message)
    if not kept:
        return None
    payload = encode_batch(kept)
    metadata.num_messages_in_batch = len(kept)
    metadata.uncompressed_size = len(payload)
    return build_entry(metadata, compress(payload, metadata.compression))
