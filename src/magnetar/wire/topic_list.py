"""GET_TOPICS_OF_NAMESPACE_RESPONSE from names that are encoded once for many responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire import varint
from magnetar.wire.frame import frame_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

_LENGTH_DELIMITED = 2
_BODY_TAG = varint.write(pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE << 3 | _LENGTH_DELIMITED)
"""The bytes of the command before the body of the response."""


def encoded_topics(topics: Iterable[str]) -> bytes:
    """Encode names for ``topic_list_response``. The results of several calls may be concatenated."""
    return pb.CommandGetTopicsOfNamespaceResponse(topics=topics).SerializePartialToString()


def topic_list_response(
    *, request_id: int, encoded_topics: bytes, topics_hash: str, filtered: bool, changed: bool
) -> bytes:
    """Like ``commands.get_topics_of_namespace_response``, with encoded names."""
    rest = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=request_id, topics_hash=topics_hash, filtered=filtered, changed=changed
    ).SerializeToString()
    head = pb.BaseCommand(type=pb.BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE).SerializePartialToString()
    size = varint.write(len(rest) + len(encoded_topics))
    return frame_of(b"".join((head, _BODY_TAG, size, rest, encoded_topics)))
