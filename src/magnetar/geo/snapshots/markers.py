"""The markers of PIP-33: a request for a snapshot, the response to it, and the update of a subscription. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.limits import MARKER_SIZE_MAX, Limit
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.snapshots.claims import UpdateClaims
from magnetar.wire.entries import markers
from magnetar.wire.frame import is_text
from magnetar.wire.proto import pulsar_markers_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    from magnetar.base.position import Position


class SnapshotRequest(NamedTuple):
    """A request to all other clusters for the ends of their logs."""

    snapshot_id: str
    source: str
    without: Mapping[str, Position] = MappingProxyType({})
    """Clusters that are left out, each with its newest entry that the asking cluster holds, in its own positions."""


class SnapshotResponse(NamedTuple):
    """A response: the sender's log ends at ``position``, and all entries to replicate up to there were sent before."""

    snapshot_id: str
    cluster: str
    position: Position
    without: frozenset[str] = frozenset()
    """The clusters that are left out: up to the position, the asking cluster lacks no entry that they published."""
    takes_claims: bool = False
    """Whether the answering cluster supports claims in updates."""


class SubscriptionUpdate(NamedTuple):
    """An update: a subscription has acknowledged everything up to a position in each of these clusters, inclusive."""

    name: str
    positions: Mapping[str, Position]
    claims: UpdateClaims | None = None
    """The entries up to the positions that it acknowledges; None: all."""


SnapshotMarker = SnapshotRequest | SnapshotResponse | SubscriptionUpdate

KINDS: Final = frozenset(
    {markers.SNAPSHOT_REQUEST, markers.SNAPSHOT_RESPONSE, markers.SNAPSHOT, markers.UPDATE},
)
"""The types of markers that brokers send about replicated subscriptions; SNAPSHOT is not among them."""


SNAPSHOT_MARKER_PARTS_MAX: Final = 10_000
"""Maximum number of clusters and intervals in a received marker. Decoding that many takes some 30 ms."""


def decode(kind: int, payload: bytes) -> SnapshotMarker | None:
    """Decode a marker; None for a type that is not for other clusters.

    Raises RemoteProtocolError for an invalid or too large one.
    """
    if len(payload) > MARKER_SIZE_MAX:
        limit = Limit.MARKER_SIZE
        message = f"a marker of {len(payload)} bytes exceeds the limit of {MARKER_SIZE_MAX} ({limit.value})"
        raise RemoteProtocolError(message, limit)
    try:
        if kind == markers.SNAPSHOT_REQUEST:
            request = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotRequest.FromString(payload)
            _check_parts(len(request.without))
            _check_text(request)
            without = markers.marked_positions(request.without)
            return SnapshotRequest(request.snapshot_id, request.source_cluster, without)
        if kind == markers.SNAPSHOT_RESPONSE:
            response = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse.FromString(payload)
            _check_parts(len(response.without))
            _check_text(response)
            position = markers.marked_position(response.cluster.message_id)
            left_out = frozenset(response.without)
            cluster = response.cluster.cluster
            return SnapshotResponse(response.snapshot_id, cluster, position, left_out, response.takes_claims)
        if kind == markers.UPDATE:
            update = pulsar_markers_pb2.ReplicatedSubscriptionsUpdate.FromString(payload)
            _check_parts(len(update.clusters) + len(update.claims.origins))
            _check_parts(sum([len(origin.acknowledged) for origin in update.claims.origins]))
            _check_text(update)
            claims = _claims(update.claims) if update.HasField("claims") else None
            return SubscriptionUpdate(update.subscription_name, markers.marked_positions(update.clusters), claims)
    except DecodeError as error:
        message = f"a marker of type {kind} cannot be read: {error}"
        raise RemoteProtocolError(message) from error
    return None


def _check_parts(parts: int) -> None:
    if parts > SNAPSHOT_MARKER_PARTS_MAX:
        limit = Limit.SNAPSHOT_MARKER_PARTS
        message = f"a marker of {parts} parts exceeds the limit of {SNAPSHOT_MARKER_PARTS_MAX} ({limit.value})"
        raise RemoteProtocolError(message, limit)


def _check_text(marker: Message) -> None:
    if not is_text(marker):
        message = "a marker with a string that is not UTF-8"
        raise RemoteProtocolError(message)


def _claims(message: pulsar_markers_pb2.UpdateClaims) -> UpdateClaims:
    acknowledged: dict[str, IntervalSet] = {}
    try:
        for origin in message.origins:
            if origin.acknowledged:
                bounds = [bound for interval in origin.acknowledged for bound in (interval.lower, interval.upper)]
                acknowledged[origin.cluster] = IntervalSet.from_bounds(list(map(markers.marked_position, bounds)))
    except ValueError as error:
        raise RemoteProtocolError(str(error)) from error
    starts = {each.cluster: markers.marked_position(each.start) for each in message.origins if each.HasField("start")}
    return UpdateClaims(starts, acknowledged, {each.cluster: each.life for each in message.origins if each.life})
