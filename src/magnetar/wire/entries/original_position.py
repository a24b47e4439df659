"""The property ``originalClusterPosition``: where a message was published (protocol: Original positions).

The value is ``cluster:ledger:entry``; a name of a cluster may contain colons. It is the same in every cluster.

Clients read the properties of a message in a batch from the batch, which has to be opened for this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import RemoteProtocolError, RequestError
from magnetar.base.limits import ENTRY_METADATA_PADDING, OPENED_BATCH_MESSAGES_MAX
from magnetar.wire.entries.batch import compress, decompress, with_property
from magnetar.wire.entries.entry import assemble, intact_parts, parse_metadata
from magnetar.wire.entries.origin import origin_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.position import Position

ORIGINAL_POSITION: Final = "originalClusterPosition"
"""The name of the property, which is the one of Tencent Cloud's article on migration."""

ORIGINAL_POSITION_METADATA: Final = "magnetar.originalClusterPosition"
"""Consumer metadata of SUBSCRIBE: ``true`` if the consumer asks for the property."""


@dataclass(frozen=True, slots=True)
class OriginalPositions:
    """Adds the property to entries of a topic in ``cluster``, which clients take up to ``message_size_max``."""

    cluster: str
    message_size_max: int

    def added(self, position: Position, entry: bytes) -> bytes:
        """Return the entry at ``position`` with the property, in place of one of this name that its producer set.

        The messages of a batch have the property each, unless the batch is encrypted, would become too large, or has
        more than OPENED_BATCH_MESSAGES_MAX messages. Then only its metadata have it, which clients do not show. An
        entry that is not intact, or would become too large, is returned unchanged.
        """
        try:
            serialized, payload = intact_parts(entry)
            metadata = parse_metadata(entry)
            origin = origin_of(metadata)
        except (RemoteProtocolError, RequestError):
            return entry
        cluster, place = (self.cluster, position) if origin is None else (origin.cluster, origin.position)
        added = pb.KeyValue(key=ORIGINAL_POSITION, value=f"{cluster}:{place}")
        own = [each for each in metadata.properties if each.key != ORIGINAL_POSITION]
        if len(own) < len(metadata.properties):
            del metadata.properties[:]
            metadata.properties.extend(own)
            serialized = metadata.SerializePartialToString()
        appended = pb.MessageMetadata(properties=[added])
        opened = self._opened(metadata, payload, added)
        if opened is not None:
            payload, size = opened
            if metadata.compression != pb.NONE:
                appended.uncompressed_size = size
        changed = assemble(serialized + appended.SerializePartialToString(), payload)
        return changed if len(changed) <= self.message_size_max + ENTRY_METADATA_PADDING else entry

    def _opened(self, metadata: pb.MessageMetadata, payload: bytes, added: pb.KeyValue) -> tuple[bytes, int] | None:
        """Return the payload of a batch with a property of each message, and its size before the compression."""
        is_batch = metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys
        if not is_batch or metadata.num_messages_in_batch > OPENED_BATCH_MESSAGES_MAX:
            return None
        try:
            data = decompress(metadata, payload, size_max=self.message_size_max)
            data = with_property(metadata, data, added)
        except (RemoteProtocolError, RequestError):
            return None
        compressed = compress(data, metadata.compression)
        return (compressed, len(data)) if max(len(data), len(compressed)) <= self.message_size_max else None
