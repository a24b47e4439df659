"""Two Magnetars receive the same messages from Apache Pulsar: origin positions are equal, so progress is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.geo.helpers import PROGRESS_TIMEOUT_S, backlog, wait_for_entries
from tests.interop.conftest import replicated_topic
from tests.kit.messages import nothing_comes, numbered, publish, receive, receive_data
from tests.kit.pulsar import MixedClusters
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.interop

MESSAGES = 200


@pytest.fixture(scope="module")
def three(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedClusters]:
    """Two Magnetars and an Apache Pulsar; no pipeline."""
    with MixedClusters(tmp_path_factory.mktemp("three"), magnetar=("ewr", "jfk"), apache=("apache",)) as running:
        yield running


def subscribe(clusters: MixedClusters, name: str, topic: str) -> pulsar.Consumer:
    return clusters.client(name).subscribe(
        topic,
        "moves",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )


def test_a_subscription_moves_with_every_single_acknowledgement(three: MixedClusters) -> None:
    topic = replicated_topic(three)
    publish(three.client("apache"), topic, numbered(MESSAGES))
    wait_for_entries(three, topic, MESSAGES, ["ewr", "jfk"])
    consumer = subscribe(three, "ewr", topic)
    for message in receive(consumer, MESSAGES)[::2]:
        consumer.acknowledge(message)
    consumer.close()
    left = MESSAGES // 2
    wait_until(lambda: backlog(three, "jfk", topic, "moves") == left, PROGRESS_TIMEOUT_S, what="progress in jfk")
    moved = subscribe(three, "jfk", topic)
    assert sorted(receive_data(moved, left), key=int) == numbered(MESSAGES)[1::2]
    assert nothing_comes(moved)
