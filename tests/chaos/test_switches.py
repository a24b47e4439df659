"""A subscription moves fifty times, planned and after kills of its broker, and every message is accounted for.

Type Shared, random individual acknowledgements, some late or missing, 5 % delayed messages, bursts, publishing in both
clusters. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run, ``MAGNETAR_CHAOS_SWITCHES`` sets the number of
moves.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import RECOVERY_TIMEOUT_S, SEED, say
from tests.geo.helpers import entries
from tests.geo.journey import Journey, Traffic, is_confirmed, standing, unconfirmed_s
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCHES = int(os.environ.get("MAGNETAR_CHAOS_SWITCHES", "50"))
NAMES = ("ewr", "jfk")
NAMESPACE = "chaos/switches"
STAY_S = (0.5, 1.5)
"""Bounds of the time for which consumers stay in a cluster, in seconds."""

PROGRESS_INTERVAL_S = 0.05
"""The default of ``replicatedSubscriptionProgressIntervalMs``."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout((SWITCHES + 2) * RECOVERY_TIMEOUT_S)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    """Two clusters whose brokers only the test restarts, at once or after a while."""
    with LocalClusters(tmp_path_factory.mktemp("switches"), NAMES) as running:
        running.make_namespace(NAMESPACE, NAMES)
        running.start_pipeline()
        wait_until(partial(is_carried, running), UP_TIMEOUT_S, what="the pipeline", interval_s=0.5)
        yield running


def is_carried(clusters: LocalClusters) -> bool:
    """Return whether messages of the first cluster reach the other."""
    topic = f"persistent://{NAMESPACE}/first"
    publish(clusters.client(NAMES[0]), topic, [b"first"])
    return entries(clusters, NAMES[1], topic) > 0


def other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


def is_linked(clusters: LocalClusters, topic: str, source: str) -> bool:
    """Return whether the other cluster's broker has applied an acknowledgement of ``source`` since its start."""
    return source in standing(clusters, topic, other(source)).get("progressApplied", {})


def test_fifty_planned_switches_lose_and_repeat_nothing(clusters: LocalClusters) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_SWITCHES={SWITCHES}")
    chance = random.Random(SEED)
    topic = f"persistent://{NAMESPACE}/planned"
    journey = Journey(clusters, topic, NAMES, Traffic(), chance)
    repeated = []
    for _ in range(SWITCHES):
        journey.run(chance.uniform(*STAY_S))
        journey.move(other(journey.here), partial(is_confirmed, clusters, topic, journey.here, other(journey.here)))
        repeated.append(len(journey.account.take_repeated()))
    journey.finish(RECOVERY_TIMEOUT_S)
    repeated.append(len(journey.account.take_repeated()))
    say(f"planned: {journey.account.numbers} messages, {SWITCHES} switches, repeated {sum(repeated)}, lost 0")
    assert repeated == [0] * (SWITCHES + 1), repeated


@dataclass(frozen=True, slots=True)
class Kill:
    """The effects of one kill, in messages."""

    repeated: int
    interval: int
    """Acknowledged within one progress interval before the kill."""

    unconfirmed: int
    """Acknowledged and unconfirmed by the other cluster, according to the broker's last statistics."""


def test_fifty_kills_lose_nothing_and_repeat_what_had_not_been_sent(clusters: LocalClusters) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_SWITCHES={SWITCHES}")
    chance = random.Random(SEED)
    topic = f"persistent://{NAMESPACE}/killed"
    journey = Journey(clusters, topic, NAMES, Traffic(), chance)
    kills: list[Kill] = []
    repeated: set[int] = set()
    unconfirmed: set[int] = set()
    for _ in range(SWITCHES):
        here, there = journey.here, other(journey.here)
        journey.run_until(partial(is_linked, clusters, topic, here), f"{here} linked", timeout_s=RECOVERY_TIMEOUT_S)
        journey.run(chance.uniform(*STAY_S))
        asked = time.monotonic()
        age_s = unconfirmed_s(clusters, topic, here, there)
        assert age_s is not None
        journey.turn()
        killed = time.monotonic()
        journey.flee(there, clusters.brokers[here].kill)
        at_risk = journey.account.acknowledged_since(asked - age_s)
        interval = journey.account.acknowledged_since(killed - PROGRESS_INTERVAL_S)
        clusters.brokers[here].launch()
        journey.run_until(clusters.rest(here).is_healthy, f"{here} healthy", timeout_s=RECOVERY_TIMEOUT_S)
        journey.publish(here)
        again = journey.account.take_repeated()
        kills.append(Kill(len(again), len(interval), len(at_risk)))
        repeated |= again
        unconfirmed |= at_risk
    journey.finish(RECOVERY_TIMEOUT_S)
    repeated |= journey.account.take_repeated()
    say(f"killed: {journey.account.numbers} messages, {SWITCHES} kills, repeated {len(repeated)}, lost 0")
    say(f"repeated at each kill: {sorted(kill.repeated for kill in kills)}")
    say(f"acknowledged in one interval before: {sorted(kill.interval for kill in kills)}")
    say(f"not confirmed, by the broker's word: {sorted(kill.unconfirmed for kill in kills)}")
    say(f"no more than one interval's: {sum(kill.repeated <= kill.interval for kill in kills)} of {SWITCHES}")
    assert repeated <= unconfirmed, sorted(repeated - unconfirmed)
    assert all(kill.repeated <= kill.unconfirmed for kill in kills), kills
