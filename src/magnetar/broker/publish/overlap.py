"""Batches whose first messages are duplicates.

A restarted producer may pack its messages into other batches than before: a batch can begin with stored messages and
end with new ones. Dropping it would lose the new messages, storing it would repeat the others.
"""

from __future__ import annotations

from magnetar.broker.publish.sequence_ids import signed
from magnetar.wire.entries.batch import check_opened, compress, decompress, members_of
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.message_id import UNSIGNED_MASK
from magnetar.wire.proto import pulsar_api_pb2 as pb

COMPRESSED_SIZE_MAX = 512 * 1024
"""Bytes that are compressed again, which takes up to 20 ms. A larger payload is stored without compression."""


def cut_batch(entry: bytes, lowest: int, pushed: int) -> bytes | None:
    """Return the entry without its messages up to sequence id ``pushed``; None if no message remains.

    ``lowest`` is the sequence id of the first message; a later message without its own has the next number. Raises
    MagnetarError if the batch cannot be opened, for example because it is encrypted.
    """
    metadata = parse_metadata(entry)
    kept: list[bytes] = []
    sequence_id = lowest - 1
    check_opened(metadata)
    data = decompress(metadata, payload_of(entry))
    for own, start, end in members_of(metadata, data):
        sequence_id = sequence_id + 1 if own is None else signed(own)
        if sequence_id > pushed:
            if not kept:
                metadata.sequence_id = sequence_id & UNSIGNED_MASK
            kept.append(data[start:end])
    if not kept:
        return None
    payload = b"".join(kept)
    metadata.num_messages_in_batch = len(kept)
    metadata.uncompressed_size = len(payload)
    if len(payload) > COMPRESSED_SIZE_MAX:
        metadata.compression = pb.NONE
    return build_entry(metadata, compress(payload, metadata.compression))
