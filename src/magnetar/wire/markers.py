"""Markers: entries that brokers write for each other and never dispatch to consumers.

The payload of a marker is one bare protobuf message, chosen by ``marker_type`` (Pulsar's ``Markers.java``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.wire.entry import build_entry
from magnetar.wire.proto import magnetar_markers_pb2, pulsar_markers_pb2
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence


SNAPSHOT_REQUEST: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST)
SNAPSHOT_RESPONSE: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_SNAPSHOT_RESPONSE)
SNAPSHOT: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_SNAPSHOT)
UPDATE: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_UPDATE)
PROGRESS: Final = int(magnetar_markers_pb2.PROGRESS_MARKER)
"""Magnetar's own; on the progress link only, never stored in a topic."""

MARKER_PRODUCER_NAME: Final = "pulsar.marker"


def build_marker(
    marker_type: int,
    payload: bytes,
    *,
    publish_time_ms: int,
    replicate_to: Sequence[str] = (),
) -> bytes:
    """Put a marker's serialized message into an entry; ``replicate_to`` empty sends it to every cluster."""
    metadata = pb.MessageMetadata(
        producer_name=MARKER_PRODUCER_NAME,
        sequence_id=0,
        publish_time=publish_time_ms,
        marker_type=marker_type,
        replicate_to=replicate_to,
    )
    return build_entry(metadata, payload)


def build_fence(source: str, target: str, *, publish_time_ms: int) -> bytes:
    """Return a marker that means nothing: its receipt says that everything sent before it is in the log, or never is.

    To a broker of Apache Pulsar it is the answer to a request for a snapshot that nobody made, and goes no further.
    """
    nowhere = pulsar_markers_pb2.ClusterMessageId(
        cluster=source, message_id=pulsar_markers_pb2.MarkersMessageIdData(ledger_id=0, entry_id=0)
    )
    answer = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse(snapshot_id="magnetar.fence", cluster=nowhere)
    return build_marker(
        SNAPSHOT_RESPONSE, answer.SerializeToString(), publish_time_ms=publish_time_ms, replicate_to=[target]
    )


def marker_type(metadata: pb.MessageMetadata) -> int | None:
    """Return the marker's type, of whatever kind; None when the entry is no marker."""
    return metadata.marker_type if metadata.HasField("marker_type") else None
