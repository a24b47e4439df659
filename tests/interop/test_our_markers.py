"""Apache Pulsar processes Magnetar's markers: it answers a request, and applies an update."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.base.position import Position
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.entries.origin import Origin, stamp
from tests.golden.marked_log import payload_message
from tests.golden.record_markers import log_on_disk
from tests.interop.conftest import replicated_topic
from tests.kit.messages import entry_of, numbered, publish
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.pulsar import MixedClusters

pytestmark = pytest.mark.interop

SOURCE_POSITION = Position(1, 0)
"""The position of the marker in Magnetar's log, for Apache Pulsar."""


@pytest.fixture
def topic(mixed: MixedClusters) -> str:
    """A topic with a running replicator from Apache Pulsar to Magnetar, which carries Magnetar's markers on."""
    name = replicated_topic(mixed)
    mixed.client("apache").subscribe(name, "keeps the log").close()

    def is_connected() -> bool:
        replication = mixed.rest("apache").stats(name)["replication"]
        return "ewr" in replication and replication["ewr"]["connected"]

    wait_until(is_connected, what="its replicator")
    return name


def send(clusters: MixedClusters, topic: str, marker_type: int, payload: bytes) -> Position:
    """Publish a marker of Magnetar to Apache Pulsar's log, as a replicator does; return its position."""
    marker = markers.build_marker(marker_type, payload, publish_time_ms=time.time_ns() // 1_000_000)
    with RawConnection.connected(clusters.pulsars["apache"].service_url) as raw:
        raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic, authoritative=False)
        raw.create_producer(topic)
        entry = stamp(marker, Origin("ewr", SOURCE_POSITION))
        raw.send("SEND", entry, producer_id=1, sequence_id=0, marker=True)
        receipt = raw.expect("SEND_RECEIPT").message_id
    return Position(receipt.ledgerId, receipt.entryId)


def mark_delete(clusters: MixedClusters, topic: str, subscription: str) -> Position | None:
    cursor = clusters.rest("apache").internal_stats(topic)["cursors"].get(subscription)
    return Position.parse(cursor["markDeletePosition"]) if cursor else None


def test_it_answers_our_request(mixed: MixedClusters, topic: str) -> None:
    snapshot_id = str(uuid.uuid4())
    asked_at = send(mixed, topic, markers.SNAPSHOT_REQUEST, markers.snapshot_request(snapshot_id, "ewr"))

    def answers() -> list[bytes]:
        return [
            logged.entry
            for logged in log_on_disk(mixed.pulsars["apache"], topic)
            if parse_metadata(logged.entry).marker_type == markers.SNAPSHOT_RESPONSE
        ]

    (answer,) = wait_until(answers, what="an answer")
    metadata = parse_metadata(answer)
    expected = markers.snapshot_response(snapshot_id, "apache", asked_at)
    assert payload_message(answer) == payload_message(
        markers.build_marker(markers.SNAPSHOT_RESPONSE, expected, publish_time_ms=0)
    )
    assert metadata.replicate_to == ["ewr"]


def test_it_applies_our_update(mixed: MixedClusters, topic: str) -> None:
    mixed.client("apache").subscribe(
        topic, "moves", pulsar.ConsumerType.Shared, initial_position=pulsar.InitialPosition.Earliest
    ).close()
    ids = publish(mixed.client("apache"), topic, numbered(10), batching_enabled=False)
    through = Position(*entry_of(ids[6]))
    positions = {"apache": through, "other": Position(9, 9)}
    claimed = [(Position(1, 1), Position(1, 2))]
    update = markers.subscription_update("moves", positions, ({"apache": Position(1, 1)}, {"apache": claimed}))
    send(mixed, topic, markers.UPDATE, update)  # Apache Pulsar ignores the claims
    wait_until(lambda: mark_delete(mixed, topic, "moves") == through, what=f"{through}")


def test_our_update_makes_a_subscription(mixed: MixedClusters, topic: str) -> None:
    ids = publish(mixed.client("apache"), topic, numbered(10), batching_enabled=False)
    through = Position(*entry_of(ids[3]))
    send(mixed, topic, markers.UPDATE, markers.subscription_update("new", {"apache": through}))
    wait_until(partial(mark_delete, mixed, topic, "new"), what="the subscription")
    wait_until(lambda: mark_delete(mixed, topic, "new") == through, what=f"{through}")
    assert mixed.rest("apache").stats(topic)["subscriptions"]["new"]["isReplicated"]
