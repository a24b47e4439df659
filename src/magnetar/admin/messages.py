"""Answers of Pulsar's peek and examine routes: metadata of an entry in headers, its payload as the body."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.responses import Response

from magnetar.admin.models.model import iso_time
from magnetar.base.errors import RemoteProtocolError
from magnetar.wire.entries.batch import decompress
from magnetar.wire.entries.entry import parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position

_PREFIX = "X-Pulsar-"

_IMPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\xff]")

_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

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
HEADERS_SIZE_MAX = 32 * 1024
"""Maximum number of characters of all values, before they are percent-encoded. Clients reject headers of 100 KB."""

_TIMES = {"publish_time": "publish-time", "event_time": "event-time", "deliver_at_time": "deliver-at-time"}


def entry_response(position: Position, entry: bytes) -> Response:
    """Return an answer with ``entry``: its payload is decompressed, and a batch is not split.

    An encrypted payload is not changed, because only consumers have the key. A payload that cannot be decompressed is
    not changed either, and a header states the reason. Headers allow printable Latin-1 only: other characters are
    percent-encoded in UTF-8, and another header names the headers with such values. Values that do not fit into
    HEADERS_SIZE_MAX are left out, and a header names them.
    """
    metadata = parse_metadata(entry)
    payload = payload_of(entry)
    headers = _headers(position, metadata)
    content = bytes(payload)
    if not metadata.encryption_keys:
        try:
            content = decompress(metadata, payload)
        except RemoteProtocolError as error:
            headers["payload-error"] = str(error)
    encoded = sorted(name for name, value in headers.items() if _IMPRINTABLE.search(value))
    for name in encoded:
        headers[name] = quote(headers[name], safe=_SAFE)
    if encoded:
        headers["percent-encoded"] = ",".join(encoded)
    named = {f"{_PREFIX}{name}": value for name, value in headers.items()}
    return Response(content, headers=named, media_type="application/octet-stream")


def _headers(position: Position, metadata: pb.MessageMetadata) -> dict[str, str]:
    """Return the headers. The shortest values come first, so that only long ones are left out."""
    headers = {"Message-ID": str(position)}
    if metadata.encryption_keys:
        headers["Is-Encrypted"] = "true"
    if metadata.compression != pb.NONE:
        headers["compression"] = pb.CompressionType.Name(metadata.compression)
    if metadata.HasField("num_messages_in_batch"):
        headers["num-batch-message"] = str(metadata.num_messages_in_batch)
    omitted, left = list[str](), HEADERS_SIZE_MAX
    for name, value in sorted(_values(metadata).items(), key=lambda item: len(item[1] or "")):
        if value is None or len(value) > left:
            omitted.append(name)
        else:
            headers[name] = value
            left -= len(value)
    if omitted:
        headers["omitted"] = ",".join(omitted)
    return headers


def _values(metadata: pb.MessageMetadata) -> dict[str, str | None]:
    """Return values of any length by the names of their headers; None for a list that is too long."""
    values: dict[str, str | None] = {}
    for field, value in metadata.ListFields():
        if field.name in _TEXTS:
            values[_TEXTS[field.name]] = _text(value)
        elif field.name in _TIMES:
            values[_TIMES[field.name]] = _time(value)
    clusters, properties = metadata.replicate_to, metadata.properties
    if clusters:
        is_short = _is_short(map(len, clusters))
        values["replicated-to"] = json.dumps(list(map(_text, clusters))) if is_short else None
    if properties:
        is_short = _is_short(len(each.key) + len(each.value) for each in properties)
        values["PROPERTY"] = (
            json.dumps({_text(each.key): _text(each.value) for each in properties}) if is_short else None
        )
    return values


def _is_short(sizes: Iterable[int]) -> bool:
    """Return whether elements of these sizes may fit into a header. Reading stops at the first that exceeds it."""
    left = HEADERS_SIZE_MAX
    for size in sizes:
        left -= size + 1
        if left < 0:
            return False
    return True


def _text(value: object) -> str:
    if isinstance(value, bytes):  # protobuf keeps text that is not UTF-8 as bytes
        return value.decode(errors="backslashreplace")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601; the number itself if it is outside the calendar."""
    try:
        return iso_time(timestamp_ms)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
