"""Batches of which only the end is new.

A producer that starts over and sends again need not pack its messages as it did before: a batch may begin with some
that are here and end with some that are not. Dropping it would lose the latter, storing it would repeat the former.
"""

from __future__ import annotations

from magnetar.wire.entries.batch import BatchedMessage, check_opened, compress, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of


def cut_batch(entry: bytes, lowest: int, pushed: int) -> bytes | None:
    """The entry without its messages up to sequence id ``pushed``; None if nothing is left of it.

    ``lowest`` is the sequence id of the first message; a later one that bears none of its own follows the one before.
    Raises MagnetarError when the batch cannot be opened, as it is when it is encrypted.
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
