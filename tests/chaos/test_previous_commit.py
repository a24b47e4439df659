"""Clusters and a pipeline of an earlier commit with those of the current code, and a rolling upgrade under traffic.

``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_PEER_SWITCHES`` sets the number of planned
switches.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest

from tests.chaos.mesh import RECOVERY_TIMEOUT_S, SEED, move, running, say, wait_for_carrying, wait_for_equal_logs
from tests.geo.helpers import consume_rest, wait_for_backlog, wait_for_entries
from tests.geo.journey import Journey, Traffic
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.messages import entry_of, numbered, read_log, receive
from tests.kit.previous import PREVIOUS_COMMIT, NoHistoryError, unpack_previous

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SWITCHES = int(os.environ.get("MAGNETAR_CHAOS_PEER_SWITCHES", "9"))
NAMESPACE = "chaos/previous"
STAY_S = (0.5, 1.5)
"""Bounds of the time for which consumers stay in a cluster, in seconds."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout((SWITCHES + 8) * RECOVERY_TIMEOUT_S)]


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment variables for running the previous commit's code."""
    directory = tmp_path_factory.mktemp("previous")
    try:
        environment = unpack_previous(directory)
    except NoHistoryError as error:
        pytest.skip(str(error))
    command = [sys.executable, "-c", "import magnetar; print(magnetar.__file__)"]
    found = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    assert found.stdout.startswith(str(directory)), found.stdout
    return environment


@pytest.mark.parametrize("old", ["broker", "pipeline", "broker and pipeline"])
def test_planned_switches_beside_the_previous_commit(previous: Mapping[str, str], old: str, tmp_path: Path) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_PEER_SWITCHES={SWITCHES}")
    chance = random.Random(SEED)
    clusters = LocalClusters(tmp_path, NAMES)
    if "broker" in old:
        clusters.brokers["ewr"].environment.update(previous)
    with running(clusters, NAMESPACE, environment=previous if "pipeline" in old else None):
        topic = f"persistent://{NAMESPACE}/switches"
        journey = Journey(clusters, topic, NAMES, Traffic(), chance)
        pauses_s = []
        for _ in range(SWITCHES):
            journey.run(chance.uniform(*STAY_S))
            there = chance.choice([name for name in NAMES if name != journey.here])
            pauses_s.append(move(journey, clusters, topic, there))
        journey.finish(RECOVERY_TIMEOUT_S)
        count = wait_for_equal_logs(clusters, topic, journey.account.published)
        repeated = journey.account.take_repeated()
    for broker in clusters.brokers.values():
        broker.require_intact()
    say(f"{old} of {PREVIOUS_COMMIT[:7]}: {count} messages, {SWITCHES} switches, lost 0, repeated {len(repeated)}")
    say(f"switches waited {', '.join(f'{pause:.2f}' for pause in pauses_s)} s")
    assert repeated == set()


def test_rolling_upgrade_from_the_previous_commit(previous: Mapping[str, str], tmp_path: Path) -> None:
    """Upgrade the brokers one by one, one of them after a kill, and the pipeline in between."""
    say(f"\nMAGNETAR_CHAOS_SEED={SEED}")
    names = ("ewr", "jfk")
    clusters = LocalClusters(tmp_path, names)
    for broker in clusters.brokers.values():
        broker.environment.update(previous)
    with running(clusters, NAMESPACE, environment=previous):
        _make_standing_state(clusters)
        topic = f"persistent://{NAMESPACE}/upgrade"
        journey = Journey(clusters, topic, names, Traffic(), random.Random(SEED))
        journey.run(3.0)
        before = {name: clusters.rest(name).get(f"namespaces/{NAMESPACE}") for name in names}
        _upgrade(clusters, journey, topic, "jfk", killed=False)
        clusters.stop_pipeline()
        journey.run(1.0)
        clusters.start_pipeline()
        # A connection that answers no PING for a minute is closed, and Spark may take that long to start.
        wait_for_carrying(clusters, NAMESPACE, "ewr", partial(journey.run, 0.1))
        move(journey, clusters, topic, "jfk")
        _upgrade(clusters, journey, topic, "ewr", killed=True)
        move(journey, clusters, topic, "ewr")
        journey.finish(RECOVERY_TIMEOUT_S)
        count = wait_for_equal_logs(clusters, topic, journey.account.published)
        repeated = journey.account.take_repeated()
        for name in names:
            after = clusters.rest(name).get(f"namespaces/{NAMESPACE}")
            assert {key: after.get(key) for key in before[name]} == before[name]
        _check_standing_state(clusters)
    for broker in clusters.brokers.values():
        broker.require_intact()
    say(f"upgrade from {PREVIOUS_COMMIT[:7]}: {count} messages, lost 0, repeated {len(repeated)}")
    assert repeated == set()


def _upgrade(clusters: LocalClusters, journey: Journey, topic: str, name: str, *, killed: bool) -> None:
    """Start the current code with the cluster's data, without consumers there; its log must be unchanged."""
    broker = clusters.brokers[name]
    journey.withdraw(name)
    held = _log_with_ids(clusters, name, topic)
    (broker.kill if killed else broker.stop)()
    broker.require_intact()
    broker.environment.clear()
    broker.launch()
    journey.run_until(broker.rest.is_healthy, f"{name} healthy", timeout_s=RECOVERY_TIMEOUT_S)
    journey.publish(name)
    journey.run(2.0)
    now = _log_with_ids(clusters, name, topic)
    assert now[: len(held)] == held
    assert len(now) > len(held)
    ids = [position for position, _ in now]
    assert ids == sorted(set(ids))


def _log_with_ids(clusters: LocalClusters, name: str, topic: str) -> list[tuple[tuple[int, int], bytes]]:
    return [(entry_of(message.message_id()), message.data()) for message in read_log(clusters.client(name), topic)]


STANDING = f"persistent://{NAMESPACE}/standing"
RESENT = f"persistent://{NAMESPACE}/resent"
HOUR_MS = 3_600_000


def _make_standing_state(clusters: LocalClusters) -> None:
    """Create a subscription with holes, a delayed message, and a producer that resends later."""
    for name in clusters.members:
        clusters.rest(name).post(f"namespaces/{NAMESPACE}/deduplication", True)
    client = clusters.client("ewr")
    consumer = _subscribe(client)
    _send_in_sequence(client, STANDING, 100)
    for number, message in enumerate(receive(consumer, 100)):
        if number % 2:
            consumer.acknowledge(message)
    producer = client.create_producer(STANDING)
    producer.send(b"later", deliver_at=int(time.time() * 1000) + HOUR_MS)
    producer.close()
    consumer.close()
    _send_in_sequence(client, RESENT, 50)
    wait_for_backlog(clusters, STANDING, "s", 51, clusters.members)
    wait_for_entries(clusters, RESENT, 50, clusters.members)


def _check_standing_state(clusters: LocalClusters) -> None:
    """Check that the holes, the delayed message and the sequence ids are unchanged in both clusters."""
    _send_in_sequence(clusters.client("jfk"), RESENT, 60)
    wait_for_entries(clusters, RESENT, 60, clusters.members)
    for name in clusters.members:
        assert [message.data() for message in read_log(clusters.client(name), RESENT)] == numbered(60)
    wait_for_backlog(clusters, STANDING, "s", 51, clusters.members)
    consume_rest(clusters, "jfk", STANDING, "s", numbered(100)[::2])
    wait_for_backlog(clusters, STANDING, "s", 1, clusters.members)


def _subscribe(client: pulsar.Client) -> pulsar.Consumer:
    return client.subscribe(
        STANDING,
        "s",
        pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )


def _send_in_sequence(client: pulsar.Client, topic: str, count: int) -> None:
    """Send messages 0 to ``count - 1`` with sequence ids from 1 and a named producer."""
    producer = client.create_producer(topic, producer_name="sends again")
    for number, payload in enumerate(numbered(count)):
        producer.send(payload, sequence_id=number + 1)
    producer.close()
