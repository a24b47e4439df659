"""A replicated subscription moves between Magnetar and Apache Pulsar with the markers of PIP-33.

The pipeline carries Magnetar's markers, and Apache Pulsar's replicator its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.interop.conftest import replicated_topic, wait_until_carried
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.messages import entry_of, nothing_comes, numbered, publish, read_log, receive
from tests.kit.pulsar import MixedClusters
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * UP_TIMEOUT_S)]

MESSAGES = 100

SNAPSHOT_TIMEOUT_S = 60.0
"""Time limit that includes a first snapshot that is lost with a lease and expires after 30 seconds."""


@pytest.fixture(scope="module", params=[("ewr",), ("ewr", "jfk")], ids=["two clusters", "three clusters"])
def mixed(
    request: pytest.FixtureRequest, peer: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedClusters]:
    """One or two Magnetars and one Apache Pulsar, with a pipeline."""
    directory = tmp_path_factory.mktemp("markers")
    with MixedClusters(directory, magnetar=request.param, apache=("apache",)) as running:
        running.start_pipeline()
        yield running


def subscribe(clusters: MixedClusters, name: str, topic: str) -> pulsar.Consumer:
    return clusters.client(name).subscribe(
        topic,
        "moves",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )


def is_through(clusters: MixedClusters, name: str, topic: str) -> bool:
    """Return whether the subscription has passed the last message of the log; only markers may follow."""
    response = clusters.rest(name).request("GET", f"{topic.replace('://', '/')}/internalStats")
    cursor = response.json()["cursors"].get("moves")
    last = entry_of(read_log(clusters.client(name), topic)[-1].message_id())
    return cursor is not None and tuple(map(int, cursor["markDeletePosition"].split(":"))) >= last


@pytest.mark.parametrize(("here", "there"), [("ewr", "apache"), ("apache", "ewr")])
def test_messages_consumed_in_one_cluster_are_consumed_in_all(mixed: MixedClusters, here: str, there: str) -> None:
    topic = replicated_topic(mixed)
    wait_until_carried(mixed, topic)
    new = len(mixed.members)
    for _ in range(2):
        for name in mixed.members:
            publish(mixed.client(name), topic, numbered(MESSAGES))
        consumer = subscribe(mixed, here, topic)
        receive(consumer, new + MESSAGES * len(mixed.members), acknowledge=True)
        for name in mixed.members:
            wait_until(partial(is_through, mixed, name, topic), SNAPSHOT_TIMEOUT_S, what=name, interval_s=0.2)
        consumer.close()  # not earlier: Apache Pulsar processes a snapshot only while there is a consumer
        moved = subscribe(mixed, there, topic)
        assert nothing_comes(moved)
        moved.close()
        new = 0
