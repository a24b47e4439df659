"""The text form of stored snapshots: each one as Apache Pulsar's SNAPSHOT marker. Pure."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from magnetar.geo.snapshots.cache import Snapshot
from magnetar.wire.entries import markers
from magnetar.wire.proto import pulsar_markers_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable


def encode_snapshots(snapshots: Iterable[Snapshot]) -> str:
    """Encode snapshots."""
    payloads = [markers.snapshot(*each) for each in snapshots]
    return json.dumps([base64.b64encode(payload).decode() for payload in payloads])


def decode_snapshots(text: str | None) -> list[Snapshot]:
    """Decode the result of ``encode_snapshots``; an empty text has no snapshots."""
    payloads = [base64.b64decode(each) for each in json.loads(text or "[]")]
    return [_snapshot(pulsar_markers_pb2.ReplicatedSubscriptionsSnapshot.FromString(each)) for each in payloads]


def _snapshot(message: pulsar_markers_pb2.ReplicatedSubscriptionsSnapshot) -> Snapshot:
    local = markers.marked_position(message.local_message_id)
    return Snapshot(message.snapshot_id, local, markers.marked_positions(message.clusters))
