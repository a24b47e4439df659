"""A subscription without backlog moves between Magnetar and Apache Pulsar, and between two Apache Pulsars, by markers.

``MAGNETAR_INTEROP_SWITCHES`` sets the number of moves in each direction.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import statistics
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import has_subscription
from tests.geo.journey import SUBSCRIPTION, Journey, Traffic
from tests.interop.conftest import wait_until_carried
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.pulsar import MixedClusters, PulsarClusters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.clusters import Group

SWITCHES = int(os.environ.get("MAGNETAR_INTEROP_SWITCHES", "20"))
SEED = 6
CAUGHT_UP = Traffic(burst=0, delayed_share=0.0, mean_work_s=0.0, late_share=0.0, held_share=0.0)
NAMESPACE = "interop/switches"
STAY_S = (2.0, 3.0)
"""Bounds of the time for which consumers stay in a cluster: several snapshots."""

BETWEEN_S = 0.2
"""Seconds between closing the consumers in one cluster and opening them in the other."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * UP_TIMEOUT_S + 4 * SWITCHES * 10)]


def after(seconds: float) -> Callable[[], bool]:
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() >= deadline


def repeated_at_switches(group: Group) -> dict[str, list[int]]:
    """Move SWITCHES times in each direction without loss; return the number of duplicates of each move, by target."""
    names = sorted(group.members)
    chance = random.Random(SEED)
    topic = f"persistent://{NAMESPACE}/{secrets.token_hex(4)}"
    journey = Journey(group, topic, names, CAUGHT_UP, chance)
    repeated: dict[str, list[int]] = {name: [] for name in names}

    def is_known() -> bool:
        return all(has_subscription(group, name, topic, SUBSCRIPTION) for name in names)

    journey.run_until(is_known, "the subscription in both", timeout_s=UP_TIMEOUT_S)
    journey.run(chance.uniform(*STAY_S))
    journey.account.take_repeated()
    for _ in range(SWITCHES):
        for there in reversed(names):
            journey.move(there, after(BETWEEN_S))
            journey.run(chance.uniform(*STAY_S))
            repeated[there].append(len(journey.account.take_repeated()))
    journey.finish(UP_TIMEOUT_S)
    sys.stdout.write(f"\n{names}: {journey.account.numbers} messages, lost 0, repeated {repeated}\n")
    return repeated


def test_no_more_is_repeated_than_between_two_apache_pulsars(peer: None, tmp_path: Path) -> None:
    with PulsarClusters(tmp_path / "pair", ("one", "two")) as pair:
        pair.make_namespace(NAMESPACE, sorted(pair.members))
        theirs = repeated_at_switches(pair)
    with MixedClusters(tmp_path / "mixed", magnetar=("ewr",), apache=("apache",)) as mixed:
        mixed.make_namespace(NAMESPACE, sorted(mixed.members))
        mixed.rest("ewr").post(f"namespaces/{NAMESPACE}/replicatedSubscriptionSync", "markers")
        mixed.start_pipeline()
        wait_until_carried(mixed, f"persistent://{NAMESPACE}/first")
        ours = repeated_at_switches(mixed)
    assert sum(all_of(ours)) <= sum(all_of(theirs)) + chance_of_sums(all_of(ours), all_of(theirs)), (ours, theirs)


def all_of(repeated: dict[str, list[int]]) -> list[int]:
    return [count for counts in repeated.values() for count in counts]


def chance_of_sums(*samples: list[int]) -> float:
    """Return the tolerance for the difference of two sums with the same distribution.

    A move repeats the acknowledgements since the last snapshot, within a second, so the number is random on both sides:
    two standard deviations of the difference of the sums.
    """
    return 2 * math.sqrt(sum(len(sample) * statistics.variance(sample) for sample in samples))
