"""Markers of two and three recorded Apache Pulsars: Magnetar parses them, and builds the same bytes."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.geo.snapshots import markers as snapshot_markers
from magnetar.geo.snapshots.cache import Snapshot
from magnetar.geo.snapshots.controller import Answer, Ask, Completed, SnapshotController, SnapshotOptions
from magnetar.geo.snapshots.markers import SnapshotRequest, SnapshotResponse
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.entries.origin import Origin, read_origin, stamp
from tests.golden.marked_log import MESSAGES, Logged, from_text, payload_message, to_text
from tests.golden.record_markers import MARKERS, MOVES, SUBSCRIPTION

if TYPE_CHECKING:
    from magnetar.geo.snapshots.controller import Effect
    from magnetar.wire.proto import pulsar_api_pb2 as pb

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(MARKERS.glob("*.txt"))}
RECORDED = {name: from_text(text) for name, text in TEXTS.items()}
LOGS = [
    pytest.param(cluster, log, id=f"{name}-{cluster}")
    for name, recorded in RECORDED.items()
    for cluster, log in recorded.logs.items()
]
Log = tuple[Logged, ...]
Payload = Any
"""The message in a marker's payload."""


def metadata_of(logged: Logged) -> pb.MessageMetadata:
    return parse_metadata(logged.entry)


def is_local(logged: Logged) -> bool:
    return not metadata_of(logged).HasField("replicated_from")


def marked(log: Log, marker_type: int, *, local: bool) -> list[tuple[Logged, Payload]]:
    """Return the markers of a type that were created here, or that arrived, with their payloads."""
    return [
        (logged, payload_message(logged.entry))
        for logged in log
        if metadata_of(logged).marker_type == marker_type and is_local(logged) == local
    ]


def before(log: Log, logged: Logged) -> Log:
    return tuple(other for other in log if other.position < logged.position)


def built(logged: Logged, payload: bytes, *replicate_to: str) -> bytes:
    """Return the marker that Magnetar would build at that time."""
    metadata = metadata_of(logged)
    return markers.build_marker(
        metadata.marker_type, payload, publish_time_ms=metadata.publish_time, replicate_to=replicate_to
    )


def test_every_story_is_recorded_as_it_is_now() -> None:
    now = {move.name: (move.summary, move.clusters) for move in MOVES}
    assert {name: (recorded.summary, tuple(recorded.logs)) for name, recorded in RECORDED.items()} == now


@pytest.mark.parametrize("name", RECORDED)
def test_the_logs_are_written_as_they_were_read(name: str) -> None:
    assert to_text(RECORDED[name]) == TEXTS[name]


@pytest.mark.parametrize("name", RECORDED)
def test_every_kind_of_marker_was_recorded(name: str) -> None:
    found = {metadata_of(logged).marker_type for logged in chain(*RECORDED[name].logs.values())}
    assert found == {0, *MESSAGES}, "0: messages of producers"


@pytest.mark.parametrize(("cluster", "log"), LOGS)
def test_our_request_is_theirs_to_the_byte(cluster: str, log: Log) -> None:
    requests = marked(log, markers.SNAPSHOT_REQUEST, local=True)
    assert requests
    for logged, said in requests:
        assert built(logged, markers.snapshot_request(said.snapshot_id, cluster)) == logged.entry


@pytest.mark.parametrize(("cluster", "log"), LOGS)
def test_our_response_is_theirs_to_the_byte(cluster: str, log: Log) -> None:
    """It is sent to the requesting cluster, with an end of the log at or after the request."""
    responses = marked(log, markers.SNAPSHOT_RESPONSE, local=True)
    assert responses
    for logged, said in responses:
        request, asked = next(
            (request, asked)
            for request, asked in reversed(marked(before(log, logged), markers.SNAPSHOT_REQUEST, local=False))
            if asked.snapshot_id == said.snapshot_id
        )
        position = markers.marked_position(said.cluster.message_id)
        assert request.position <= position < logged.position
        payload = markers.snapshot_response(asked.snapshot_id, cluster, position)
        assert built(logged, payload, asked.source_cluster) == logged.entry


@pytest.mark.parametrize(("cluster", "log"), LOGS)
def test_our_snapshot_is_theirs_to_the_byte(cluster: str, log: Log) -> None:
    """It has the local position of the last answer, and the positions of the first answers."""
    snapshots = marked(log, markers.SNAPSHOT, local=True)
    assert snapshots
    for logged, said in snapshots:
        answers = [
            (answer.position, answered.cluster)
            for answer, answered in marked(before(log, logged), markers.SNAPSHOT_RESPONSE, local=False)
            if answered.snapshot_id == said.snapshot_id
        ]
        first = markers.marked_positions(answered for _, answered in reversed(answers))
        payload = markers.snapshot(said.snapshot_id, answers[-1][0], first)
        assert built(logged, payload, cluster) == logged.entry


@pytest.mark.parametrize("name", RECORDED)
def test_a_snapshot_takes_a_second_round_when_there_are_more_than_two(name: str) -> None:
    logs = RECORDED[name].logs
    for log in logs.values():
        asked = Counter(said.snapshot_id for _, said in marked(log, markers.SNAPSHOT_REQUEST, local=True))
        completed = {said.snapshot_id for _, said in marked(log, markers.SNAPSHOT, local=True)}
        assert {asked[snapshot_id] for snapshot_id in completed} == {1 if len(logs) == 2 else 2}


@pytest.mark.parametrize("name", RECORDED)
def test_our_update_is_theirs_to_the_byte(name: str) -> None:
    """It has the other clusters' positions of an earlier snapshot, and none of its own cluster."""
    found = 0
    for cluster, log in RECORDED[name].logs.items():
        for logged, said in marked(log, markers.UPDATE, local=True):
            positions = markers.marked_positions(said.clusters)
            assert set(positions) == set(RECORDED[name].logs) - {cluster}
            taken = [
                markers.marked_positions(snapshot.clusters)
                for _, snapshot in marked(before(log, logged), markers.SNAPSHOT, local=True)
            ]
            assert positions in taken
            assert built(logged, markers.subscription_update(SUBSCRIPTION, positions)) == logged.entry
            found += 1
    assert found >= 2, "from where the subscription was, and from where it went"


@pytest.mark.parametrize(("cluster", "log"), LOGS)
def test_our_controller_does_what_theirs_did(cluster: str, log: Log) -> None:
    """With the same inputs in order, it asks, asks again, answers and completes in the same way."""
    new_ids = iter(dict.fromkeys(said.snapshot_id for _, said in marked(log, markers.SNAPSHOT_REQUEST, local=True)))
    controller = SnapshotController(SnapshotOptions(timeout_s=30.0), new_ids.__next__)
    others = sorted({asked.source_cluster for _, asked in marked(log, markers.SNAPSHOT_REQUEST, local=False)})
    asked: dict[tuple[str, str], SnapshotRequest] = {}
    did: list[Effect] = []
    for logged in log:
        said = snapshot_markers.decode(metadata_of(logged).marker_type, bytes(payload_of(logged.entry)))
        match is_local(logged), said:
            case False, SnapshotRequest() as request:
                asked[request.snapshot_id, request.source] = request
            case False, SnapshotResponse() as response:
                did += controller.answered(response, 0.0, logged.position)
            case True, SnapshotRequest(snapshot_id):
                # The second request of a snapshot follows from answers, the first one from the time.
                again = Ask(snapshot_id, tuple(others))
                if again not in did:
                    did += controller.begin(0.0, others)
                did.remove(again)
            case True, SnapshotResponse(snapshot_id, _, position):
                (asking,) = metadata_of(logged).replicate_to
                answer = Answer(snapshot_id, asking, position)
                assert controller.asked(asked[snapshot_id, asking], position) == [answer]
        if metadata_of(logged).marker_type == markers.SNAPSHOT:
            completed: Payload = payload_message(logged.entry)
            local = markers.marked_position(completed.local_message_id)
            snapshot = Snapshot(completed.snapshot_id, local, markers.marked_positions(completed.clusters))
            did.remove(Completed(snapshot))
    assert did == []


@pytest.mark.parametrize("name", RECORDED)
def test_arrived_entries_have_their_origin_in_our_encoding(name: str) -> None:
    """For messages and markers: Magnetar's stamp includes everything that Apache Pulsar adds in transit."""
    logs = RECORDED[name].logs
    at = {(cluster, logged.position): logged.entry for cluster, log in logs.items() for logged in log}
    arrived = [logged for logged in chain(*logs.values()) if not is_local(logged)]
    assert arrived
    for logged in arrived:
        origin = read_origin(logged.entry)
        assert origin is not None
        sent = at[origin.cluster, origin.position]
        ours = parse_metadata(stamp(sent, Origin(origin.cluster, origin.position)))
        ours.ClearField("link_place")
        assert build_entry(ours, bytes(payload_of(sent))) == logged.entry


@pytest.mark.parametrize("name", RECORDED)
def test_markers_go_where_they_must(name: str) -> None:
    """A request and an update go to all others, a response to the requesting cluster, a snapshot to none."""
    logs = RECORDED[name].logs
    for cluster, log in logs.items():
        for logged in filter(is_local, log):
            metadata = metadata_of(logged)
            if not metadata.HasField("marker_type"):
                continue
            reached = {
                other
                for other, entries in logs.items()
                if Origin(cluster, logged.position) in [read_origin(entry.entry) for entry in entries]
            }
            everybody = set(logs) - {cluster}
            expected = set(metadata.replicate_to) & everybody if metadata.replicate_to else everybody
            assert reached == expected, f"{markers.marker_type(metadata)} at {logged.position} of {cluster}"
