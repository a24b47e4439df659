"""Markers: entries that brokers write for each other and never dispatch to consumers.

The payload of a marker is one bare protobuf message, selected by ``marker_type`` (Pulsar's ``Markers.java``). The
markers of replicated subscriptions (PIP-33) are built here; the clusters in them are sorted by name.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from magnetar.base.position import Position
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.proto import magnetar_markers_pb2, pulsar_markers_pb2
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    _Intervals = Mapping[str, Iterable[tuple[Position, Position]]]
    _Claims = tuple[Mapping[str, Position], _Intervals] | tuple[Mapping[str, Position], _Intervals, Mapping[str, str]]

SNAPSHOT_REQUEST: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_SNAPSHOT_REQUEST)
SNAPSHOT_RESPONSE: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_SNAPSHOT_RESPONSE)
SNAPSHOT: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_SNAPSHOT)
UPDATE: Final = int(pulsar_markers_pb2.REPLICATED_SUBSCRIPTION_UPDATE)
PROGRESS: Final = int(magnetar_markers_pb2.PROGRESS_MARKER)
"""Magnetar's own marker type; only on the progress link, never stored in a topic."""

PROBE: Final = int(magnetar_markers_pb2.PROBE_MARKER)
"""Magnetar's own marker type; only on replication links, never stored in a topic."""

MARKER_PRODUCER_NAME: Final = "pulsar.marker"

_UNSIGNED: Final = 2**64
"""Markers hold positions unsigned, as Java writes them: the entry id -1, before a ledger's first entry, is 2^64 - 1."""

_NOBODY: Mapping[str, Position] = MappingProxyType({})
_NONE: Mapping[str, str] = MappingProxyType({})


def build_marker(
    marker_type: int,
    payload: bytes,
    *,
    publish_time_ms: int,
    replicate_to: Sequence[str] = (),
    properties: Mapping[str, str] = _NONE,
) -> bytes:
    """Build an entry from a marker's serialized message; an empty ``replicate_to`` replicates it to every cluster."""
    metadata = pb.MessageMetadata(
        producer_name=MARKER_PRODUCER_NAME,
        sequence_id=0,
        publish_time=publish_time_ms,
        marker_type=marker_type,
        replicate_to=replicate_to,
        properties=[pb.KeyValue(key=key, value=value) for key, value in properties.items()],
    )
    return build_entry(metadata, payload)


def build_fence(source: str, target: str, *, publish_time_ms: int) -> bytes:
    """Build a marker without effect: its receipt proves that all entries sent before it are stored or never will be.

    An Apache Pulsar broker takes it for the response to an unknown snapshot request and drops it.
    """
    answer = snapshot_response("magnetar.fence", source, Position(0, 0))
    return build_marker(SNAPSHOT_RESPONSE, answer, publish_time_ms=publish_time_ms, replicate_to=[target])


def build_probe(*, publish_time_ms: int, properties: Mapping[str, str] = _NONE) -> bytes:
    """Build a probe: a marker without content, sent at the position of an earlier entry.

    A receiver that has the position drops it as a duplicate; any other receiver refuses it as a gap.
    """
    return build_marker(PROBE, b"", publish_time_ms=publish_time_ms, properties=properties)


def is_probe(entry: bytes) -> bool:
    """Whether the entry is a probe; raises RemoteProtocolError if its metadata cannot be read."""
    return marker_type(parse_metadata(entry)) == PROBE


def snapshot_request(snapshot_id: str, source_cluster: str, without: Mapping[str, Position] = _NOBODY) -> bytes:
    """Return the payload of a SNAPSHOT_REQUEST marker (PIP-33): ``source_cluster`` requests positions.

    ``without`` names clusters that need not answer, each with the last position of its entries that the source holds.
    """
    return pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotRequest(
        snapshot_id=snapshot_id, source_cluster=source_cluster, without=_in_order(without)
    ).SerializeToString()


def snapshot_response(
    snapshot_id: str, cluster: str, position: Position, without: Iterable[str] = (), *, takes_claims: bool | None = None
) -> bytes:
    """Return the payload of a SNAPSHOT_RESPONSE marker (PIP-33): the current ``position`` in ``cluster``.

    The position is before any entry of the clusters in ``without`` that the requesting cluster does not hold.
    ``takes_claims`` tells that ``cluster`` honours the claims of an UPDATE; Apache Pulsar leaves it out.
    """
    return pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse(
        snapshot_id=snapshot_id,
        cluster=_cluster_message_id(cluster, position),
        without=sorted(without),
        takes_claims=takes_claims,
    ).SerializeToString()


def snapshot(snapshot_id: str, local_position: Position, positions: Mapping[str, Position]) -> bytes:
    """Return the payload of a SNAPSHOT marker (PIP-33), which relates ``local_position`` to ``positions``.

    Acknowledging up to ``local_position`` (inclusive) implies acknowledging up to ``positions`` in the other clusters.
    """
    return pulsar_markers_pb2.ReplicatedSubscriptionsSnapshot(
        snapshot_id=snapshot_id, local_message_id=_message_id(local_position), clusters=_in_order(positions)
    ).SerializeToString()


def subscription_update(
    subscription: str,
    positions: Mapping[str, Position],
    claims: _Claims | None = None,
) -> bytes:
    """Return the payload of an UPDATE marker (PIP-33): acknowledged up to and including ``positions``.

    With ``claims``, only the named entries are acknowledged: for each origin, in its own positions, the exclusive start
    of the subscription, the acknowledged intervals, open below and closed above, and the encoded life of the origin.
    """
    return pulsar_markers_pb2.ReplicatedSubscriptionsUpdate(
        subscription_name=subscription,
        clusters=_in_order(positions),
        claims=None if claims is None else _claims(*claims),
    ).SerializeToString()


def _claims(
    starts: Mapping[str, Position],
    acknowledged: Mapping[str, Iterable[tuple[Position, Position]]],
    lives: Mapping[str, str] = _NONE,
) -> pulsar_markers_pb2.UpdateClaims:
    return pulsar_markers_pb2.UpdateClaims(
        origins=[
            pulsar_markers_pb2.OriginClaims(
                cluster=cluster,
                start=_message_id(starts[cluster]) if cluster in starts else None,
                acknowledged=[
                    pulsar_markers_pb2.OriginInterval(lower=_message_id(lower), upper=_message_id(upper))
                    for lower, upper in acknowledged.get(cluster, ())
                ],
                life=lives.get(cluster),
            )
            for cluster in sorted({*starts, *acknowledged})
        ]
    )


def marked_position(message_id: pulsar_markers_pb2.MarkersMessageIdData) -> Position:
    """Return the position in a marker."""
    return Position(_signed(message_id.ledger_id), _signed(message_id.entry_id))


def marked_positions(clusters: Iterable[pulsar_markers_pb2.ClusterMessageId]) -> dict[str, Position]:
    """Return the positions in a marker, by cluster."""
    return {marked.cluster: marked_position(marked.message_id) for marked in clusters}


def marker_type(metadata: pb.MessageMetadata) -> int | None:
    """Return the marker type; None for an entry that is not a marker."""
    return metadata.marker_type if metadata.HasField("marker_type") else None


def _in_order(positions: Mapping[str, Position]) -> list[pulsar_markers_pb2.ClusterMessageId]:
    return [_cluster_message_id(cluster, position) for cluster, position in sorted(positions.items())]


def _cluster_message_id(cluster: str, position: Position) -> pulsar_markers_pb2.ClusterMessageId:
    return pulsar_markers_pb2.ClusterMessageId(cluster=cluster, message_id=_message_id(position))


def _message_id(position: Position) -> pulsar_markers_pb2.MarkersMessageIdData:
    return pulsar_markers_pb2.MarkersMessageIdData(
        ledger_id=position.ledger_id % _UNSIGNED, entry_id=position.entry_id % _UNSIGNED
    )


def _signed(value: int) -> int:
    return value - _UNSIGNED if value >= _UNSIGNED // 2 else value
