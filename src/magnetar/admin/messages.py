"""An entry as Pulsar's peek and examine routes answer it: metadata in headers, the payload as the body."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import Response

from magnetar.admin.models import iso_time
from magnetar.wire.batch import decompress
from magnetar.wire.entry import parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.position import Position

_PREFIX = "X-Pulsar-"

_TEXTS = {
    "producer_name": "producer-name",
    "sequence_id": "sequence-id",
    "replicated_from": "replicated-from",
    "partition_key": "partition-key",
    "partition_key_b64_encoded": "partition-key-b64-encoded",
    "uncompressed_size": "uncompressed-size",
    "highest_sequence_id": "highest-sequence-id",
    "marker_type": "marker-type",
    "uuid": "uuid",
    "num_chunks_from_msg": "num-chunks-from-msg",
    "total_chunk_msg_size": "total-chunk-msg-size",
    "chunk_id": "chunk-id",
}
_TIMES = {"publish_time": "publish-time", "event_time": "event-time", "deliver_at_time": "deliver-at-time"}


def entry_response(position: Position, entry: bytes) -> Response:
    """Answer with ``entry``: decompressed; a batch as it is, its messages one after the other."""
    metadata = parse_metadata(entry)
    payload = payload_of(entry)
    # What is encrypted stays as it is: only its consumers have the key.
    content = bytes(payload) if metadata.encryption_keys else decompress(metadata, payload)
    return Response(content, headers=_headers(position, metadata), media_type="application/octet-stream")


def _headers(position: Position, metadata: pb.MessageMetadata) -> dict[str, str]:
    headers = {"Message-ID": str(position)}
    for field, value in metadata.ListFields():
        if field.name in _TEXTS:
            headers[_TEXTS[field.name]] = _text(value)
        elif field.name in _TIMES:
            headers[_TIMES[field.name]] = iso_time(value)
    if metadata.replicate_to:
        headers["replicated-to"] = json.dumps(list(metadata.replicate_to))
    if metadata.properties:
        headers["PROPERTY"] = json.dumps({each.key: each.value for each in metadata.properties})
    if metadata.encryption_keys:
        headers["Is-Encrypted"] = "true"
    if metadata.compression != pb.NONE:
        headers["compression"] = pb.CompressionType.Name(metadata.compression)
    if metadata.HasField("num_messages_in_batch"):
        headers["num-batch-message"] = str(metadata.num_messages_in_batch)
    return {f"{_PREFIX}{name}": value for name, value in headers.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
