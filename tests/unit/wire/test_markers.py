"""Marker entries."""

from __future__ import annotations

from magnetar.base.position import Position
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import checksum_matches, parse_metadata, payload_of
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


def test_a_request_names_who_asks() -> None:
    request = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotRequest.FromString(markers.snapshot_request("s", "ewr"))
    assert (request.snapshot_id, request.source_cluster) == ("s", "ewr")


def test_a_response_names_who_answers_and_where_it_is() -> None:
    payload = markers.snapshot_response("s", "jfk", Position(3, 14))
    response = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse.FromString(payload)
    assert response.snapshot_id == "s"
    assert markers.marked_positions([response.cluster]) == {"jfk": Position(3, 14)}


def test_a_snapshot_ties_a_local_position_to_the_others_in_the_order_of_their_names() -> None:
    payload = markers.snapshot("s", Position(1, 5), {"lga": Position(9, 2), "jfk": Position(3, 14)})
    snapshot = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshot.FromString(payload)
    assert snapshot.snapshot_id == "s"
    assert markers.marked_position(snapshot.local_message_id) == Position(1, 5)
    assert [marked.cluster for marked in snapshot.clusters] == ["jfk", "lga"]
    assert markers.marked_positions(snapshot.clusters) == {"jfk": Position(3, 14), "lga": Position(9, 2)}


def test_an_update_names_the_subscription_and_positions_in_the_order_of_the_clusters() -> None:
    payload = markers.subscription_update("moves", {"lga": Position(9, 2), "jfk": Position(3, 14)})
    update = pulsar_markers_pb2.ReplicatedSubscriptionsUpdate.FromString(payload)
    assert update.subscription_name == "moves"
    assert [marked.cluster for marked in update.clusters] == ["jfk", "lga"]
    assert markers.marked_positions(update.clusters) == {"jfk": Position(3, 14), "lga": Position(9, 2)}


def test_the_place_before_a_ledgers_first_entry_is_written_as_java_writes_it() -> None:
    response = pulsar_markers_pb2.ReplicatedSubscriptionsSnapshotResponse.FromString(
        markers.snapshot_response("s", "jfk", Position(3, -1))
    )
    assert response.cluster.message_id.entry_id == 2**64 - 1
    assert markers.marked_position(response.cluster.message_id) == Position(3, -1)
