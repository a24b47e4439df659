"""A cluster loses its disk under traffic, and returns under its name with an empty one.

``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_DISKS`` sets the number of disks.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import (
    RECOVERY_TIMEOUT_S,
    SEED,
    linked,
    make_kept_namespace,
    move,
    numbers_in,
    running,
    say,
    wait_for_equal_logs,
)
from tests.geo.journey import Journey, Traffic, unconfirmed_s
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DISKS = int(os.environ.get("MAGNETAR_CHAOS_DISKS", "3"))
NAMESPACE = "chaos/disks"
CHECK_EVERY_S = 1.0
"""Seconds between two reads of a whole log."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout((DISKS + 1) * 4 * RECOVERY_TIMEOUT_S)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    """Three clusters and a pipeline."""
    with running(LocalClusters(tmp_path_factory.mktemp("disks"), NAMES), NAMESPACE) as group:
        yield group


class Logs:
    """Reads whole logs at a limited rate."""

    def __init__(self, clusters: LocalClusters, topic: str) -> None:
        """Begin without a read."""
        self._clusters, self._topic = clusters, topic
        self._looked = 0.0

    def hold(self, names: list[str], numbers: set[int]) -> bool:
        """Return whether the logs of these clusters have all of ``numbers``; False between two reads."""
        if time.monotonic() - self._looked < CHECK_EVERY_S:
            return False
        held = [set(numbers_in(self._clusters, name, self._topic)) for name in names]
        self._looked = time.monotonic()
        return all(numbers <= each for each in held)


@dataclass(slots=True)
class Round:
    """The loss of one disk, and its effects."""

    lost: str
    there: str
    third: str
    at_risk: set[int] = field(default_factory=set)
    """Messages with a receipt of their acknowledgement that ``there`` did not have when the disk was lost."""

    repeated: set[int] = field(default_factory=set)
    pause_s: float = 0.0


@pytest.mark.parametrize("number", range(DISKS))
def test_empty_cluster_is_filled_without_new_traffic(clusters: LocalClusters, number: int) -> None:
    """Move the consumers to another cluster, then to the refilled one without any producer, and back.

    In every other round producers stop before the cluster does. Then it has confirmed everything, and no cluster has
    new entries for it after its return.
    """
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_DISKS={DISKS}")
    chance = random.Random(SEED + number)
    lost, there, third = chance.sample(NAMES, 3)
    cost = Round(lost, there, third)
    topic = f"persistent://{NAMESPACE}/t{number}"
    journey = Journey(clusters, topic, (lost, there, third), Traffic(), chance)
    logs = Logs(clusters, topic)
    own = _lose_disk(clusters, topic, journey, cost, quiet=number % 2 == 0)

    clusters.brokers[lost].start()
    make_kept_namespace(clusters, NAMESPACE, [lost])
    began = time.monotonic()
    carried = _published(journey, there) | _published(journey, third)
    journey.run_until(lambda: logs.hold([lost], carried), f"{lost} to be filled", timeout_s=RECOVERY_TIMEOUT_S)
    filled_s = time.monotonic() - began
    journey.run_until(partial(linked, clusters, topic, there, lost), f"{there} linked to {lost}")
    move(journey, clusters, topic, lost)
    journey.acknowledge_all()
    journey.run_until(lambda: not journey.account.missing & carried, f"all that is not acknowledged, in {lost}")

    for name in (lost, there, third):
        journey.publish(name)
    journey.run(2.0)
    for name in (third, lost, there):
        move(journey, clusters, topic, name)
        journey.run(1.0)
    journey.finish(RECOVERY_TIMEOUT_S)
    later = journey.account.take_repeated()
    rest = journey.account.published - own
    wait_until(lambda: logs.hold([lost], rest), RECOVERY_TIMEOUT_S, what=f"new messages in {lost}")
    count = wait_for_equal_logs(clusters, topic, journey.account.published, (there, third))
    say(f"disk of {lost} replaced: {count} messages, {len(carried)} of them to be filled in, lost 0")
    say(f"repeated {len(cost.repeated)}, at most {len(cost.at_risk)}; after the switches there and back {len(later)}")
    say(f"consumers paused for {cost.pause_s:.2f} s; {lost} was filled {filled_s:.1f} s after its start")
    assert cost.repeated <= cost.at_risk, sorted(cost.repeated - cost.at_risk)
    assert later == set()


def _lose_disk(clusters: LocalClusters, topic: str, journey: Journey, cost: Round, *, quiet: bool) -> set[int]:
    """Kill the broker of the active consumers and remove its data; return the messages published there.

    Nobody publishes after the return. With ``quiet``, nobody has published since every cluster had confirmed
    everything.
    """
    lost, there, third = cost.lost, cost.there, cost.third
    logs, account = Logs(clusters, topic), journey.account
    for other in (there, third):
        journey.run_until(partial(linked, clusters, topic, lost, other), f"{lost} linked to {other}")
    journey.run(2.0)
    journey.withdraw(lost)
    # entries that were not replicated are lost with the disk, so only the others are checked
    own = _published(journey, lost)
    elsewhere = partial(logs.hold, [there, third], own)
    journey.run_until(elsewhere, f"messages of {lost} elsewhere", timeout_s=RECOVERY_TIMEOUT_S)
    if quiet:
        _withdraw_all(journey)
        through = partial(_is_confirmed_everywhere, clusters, topic)
        journey.run_until(through, "all links to be through", timeout_s=RECOVERY_TIMEOUT_S)
    asked = time.monotonic()
    age_s = unconfirmed_s(clusters, topic, lost, there)
    assert age_s is not None
    began = time.monotonic()
    journey.flee(there, clusters.brokers[lost].kill)
    cost.at_risk = account.acknowledged_since(asked - age_s)
    shutil.rmtree(clusters.brokers[lost].directory / "data")
    acknowledged = len(account.acknowledged)
    if account.missing or not quiet:
        journey.run_until(lambda: len(account.acknowledged) > acknowledged, f"acknowledgements in {there}")
    cost.pause_s = time.monotonic() - began
    journey.run(2.0)
    _withdraw_all(journey)
    cost.repeated = account.take_repeated()
    return own


def _withdraw_all(journey: Journey) -> None:
    for name in sorted(journey.publishing):
        journey.withdraw(name)


def _is_confirmed_everywhere(clusters: LocalClusters, topic: str) -> bool:
    """Return whether every cluster has confirmed all entries of the topic to every other."""
    return all(
        link.get("replicationBacklog") == 0
        for name in clusters.members
        for link in clusters.rest(name).stats(topic)["replication"].values()
    )


def _published(journey: Journey, origin: str) -> set[int]:
    """Return the receipted messages published in the cluster."""
    account = journey.account
    return {number for number in account.published if account.origins[number] == origin}
