"""Clusters with different ``maxMessageSize``: a message above the target's limit parks only its own topic's link.

``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from magnetar.base.limits import ENTRY_METADATA_PADDING
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.chaos.mesh import RECOVERY_TIMEOUT_S, SEED, move, running, say, wait_for_equal_logs
from tests.geo.helpers import consume_rest, entries, log_of, wait_for_backlog, wait_for_entries
from tests.geo.journey import Journey, Traffic
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.messages import numbered, publish
from tests.kit.raw import RawConnection, name_of
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "chaos/sizes"
LARGE_LIMIT, SMALL_LIMIT = 500_000, 50_000
SMALL = "lga"
"""The cluster with the low limit."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(10 * RECOVERY_TIMEOUT_S)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    """Three clusters, one of them with a low limit, and a pipeline."""
    group = LocalClusters(tmp_path_factory.mktemp("sizes"), NAMES)
    for name, broker in group.brokers.items():
        broker.settings["maxMessageSize"] = SMALL_LIMIT if name == SMALL else LARGE_LIMIT
    with running(group, NAMESPACE):
        yield group


def test_message_that_a_cluster_does_not_take_holds_up_one_link(clusters: LocalClusters) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED}")
    chance = random.Random(SEED)
    topic, others = f"persistent://{NAMESPACE}/large", f"persistent://{NAMESPACE}/others"
    payloads = [*numbered(10), bytes(2 * SMALL_LIMIT), *numbered(10, first=10)]
    clusters.client("ewr").subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    ).close()
    with RawConnection.connected(clusters.brokers["ewr"].service_url) as connection:
        connection.create_producer(topic)  # the official client uses the lowest limit that it ever received
        for number, payload in enumerate(payloads):
            connection.publish(payload, sequence_id=number)
    publish(clusters.client("jfk"), topic, numbered(5, first=20))
    wait_for_entries(clusters, topic, 26, ["ewr", "jfk"])
    wait_for_entries(clusters, topic, 15, [SMALL])
    reason = wait_until(partial(_reason, clusters, topic), what="a reason in the statistics")
    assert reason is not None
    assert "maxMessageSize" in reason

    journey = Journey(clusters, others, NAMES, Traffic(), chance)
    pauses_s = []
    for there in (SMALL, "jfk", SMALL, "ewr"):
        journey.run(1.0)
        pauses_s.append(move(journey, clusters, others, there))
    journey.finish(RECOVERY_TIMEOUT_S)
    count = wait_for_equal_logs(clusters, others, journey.account.published)
    repeated = journey.account.take_repeated()
    assert entries(clusters, SMALL, topic) == 15
    assert _reason(clusters, topic) == reason
    consume_rest(clusters, "ewr", topic, "s", [*payloads, *numbered(5, first=20)])

    small = clusters.brokers[SMALL]
    small.settings["maxMessageSize"] = LARGE_LIMIT
    small.stop()
    small.start()
    wait_for_entries(clusters, topic, 26, [SMALL])
    wait_for_backlog(clusters, topic, "s", 0, NAMES)
    log = log_of(clusters, SMALL, topic)
    assert [payload for payload in log if payload in payloads] == payloads
    assert sorted(log) == sorted(log_of(clusters, "ewr", topic))
    wait_until(lambda: _reason(clusters, topic) is None, what="no reason in the statistics any more")
    consume_rest(clusters, SMALL, topic, "s", [])
    say(f"one topic parked: {reason}")
    say(f"others meanwhile: {count} messages, lost 0, repeated {len(repeated)}")
    say(f"switches waited {', '.join(f'{pause:.2f}' for pause in pauses_s)} s")
    assert repeated == set()


def test_everything_that_has_a_receipt_fits_elsewhere(clusters: LocalClusters) -> None:
    """Publish entries up to the exact limit of their cluster; one with the same limit must accept them."""
    topic = f"persistent://{NAMESPACE}/limit"
    receipted = []
    for below in (1000, 500, 300, 200, 150, 100, 50, 20, 10, 1, 0):
        name = f"{below} below"
        if _publish_entry(
            clusters.brokers["ewr"].service_url, topic, name, LARGE_LIMIT + ENTRY_METADATA_PADDING - below
        ):
            receipted.append(name)
    assert receipted
    publish(clusters.client("ewr"), topic, [b"last"])
    wait_for_entries(clusters, topic, len(receipted) + 1, ["jfk"])
    say(f"receipted, and replicated: {', '.join(receipted)} the limit")


def _publish_entry(service_url: str, topic: str, name: str, size: int) -> bool:
    """Publish one entry of ``size`` bytes; return whether it got a receipt."""
    metadata = pb.MessageMetadata(producer_name=name, sequence_id=0, publish_time=1)
    metadata.properties.add(key="padding", value="-" * (ENTRY_METADATA_PADDING - 500))
    payload = bytes(size - len(build_entry(metadata, b"")))
    with RawConnection.connected(service_url) as connection:
        connection.create_producer(topic)
        connection.send("SEND", build_entry(metadata, payload), producer_id=1, sequence_id=0)
        frames = wait_until(lambda: connection.gather(0.1), what="an answer to the message")
        return name_of(frames[0]) == "SEND_RECEIPT"


def _reason(clusters: LocalClusters, topic: str) -> str | None:
    """Return the reason for parking the link to the cluster with the low limit, from the statistics of the source."""
    reason: str | None = clusters.rest("ewr").stats(topic)["replication"][SMALL].get("parkedReason")
    return reason
