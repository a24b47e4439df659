"""Marker entries."""

from __future__ import annotations

from magnetar.wire import markers
from magnetar.wire.entry import checksum_matches, parse_metadata, payload_of
from magnetar.wire.proto import magnetar_markers_pb2, pulsar_markers_pb2
from magnetar.wire.proto import pulsar_api_pb2 as pb


def test_a_marker_is_an_entry_as_pulsar_writes_it() -> None:
    request = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotRequest(snapshot_id="s", source_cluster="ewr")
    entry = markers.build_marker(markers.SNAPSHOT_REQUEST, request.SerializeToString(), publish_time_ms=5)
    metadata = parse_metadata(entry)
    assert checksum_matches(entry)
    assert metadata == pb.MessageMetadata(producer_name="pulsar.marker", sequence_id=0, publish_time=5, marker_type=10)
    assert markers.marker_type(metadata) == 10
    assert payload_of(entry) == request.SerializeToString()


def test_a_marker_may_be_for_some_clusters() -> None:
    response = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse(snapshot_id="s")
    entry = markers.build_marker(
        markers.SNAPSHOT_RESPONSE, response.SerializeToString(), publish_time_ms=5, replicate_to=("jfk",)
    )
    assert parse_metadata(entry).replicate_to == ["jfk"]


def test_the_types_are_pulsars_and_ours_begin_at_100() -> None:
    assert (markers.SNAPSHOT_REQUEST, markers.SNAPSHOT_RESPONSE, markers.SNAPSHOT, markers.UPDATE) == (10, 11, 12, 13)
    assert markers.PROGRESS == 100


def test_an_entry_without_the_field_is_no_marker() -> None:
    assert markers.marker_type(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)) is None


def test_positions_of_a_progress_marker_may_be_negative() -> None:
    position = magnetar_markers_pb2.OriginPosition(ledger_id=-1, entry_id=-1)
    assert len(position.SerializeToString()) == 4
    assert magnetar_markers_pb2.OriginPosition.FromString(position.SerializeToString()) == position
