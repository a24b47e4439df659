"""A process is suspended for half a minute under traffic, like on a machine that hangs, and then resumes.

SIGSTOP leaves all sockets open, without any notification. ``MAGNETAR_CHAOS_SEED`` repeats the random choices of a run,
``MAGNETAR_CHAOS_STOPPED_S`` sets the duration of each suspension.
"""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.chaos.mesh import (
    RECOVERY_TIMEOUT_S,
    SEED,
    confirms_all_before,
    holds,
    move,
    running,
    say,
    wait_for_carrying,
    wait_for_equal_logs,
)
from tests.geo.journey import Journey, Traffic, is_confirmed, unconfirmed_s
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.messages import numbered, publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

STOPPED_S = float(os.environ.get("MAGNETAR_CHAOS_STOPPED_S", "30"))
NAMESPACE = "chaos/stopped"
LEASE_SECONDS = 20
"""Less than the suspension, so that the lease of a suspended worker ends and another one takes its links."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(STOPPED_S + 6 * RECOVERY_TIMEOUT_S)]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClusters]:
    """Three clusters and a pipeline."""
    directory = tmp_path_factory.mktemp("stopped")
    with running(LocalClusters(directory, NAMES), NAMESPACE, "--lease-seconds", str(LEASE_SECONDS)) as group:
        yield group


def test_others_go_on_without_a_stopped_broker(clusters: LocalClusters) -> None:
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_STOPPED_S={STOPPED_S:g}")
    topic = f"persistent://{NAMESPACE}/broker"
    chance = random.Random(SEED)
    stopped, there, third = chance.sample(NAMES, 3)
    journey = Journey(clusters, topic, (stopped, there, third), Traffic(), chance)
    for other in (there, third):
        journey.run_until(partial(is_confirmed, clusters, topic, stopped, other), f"progress in {other}")
    journey.run(2.0)
    asked = time.monotonic()
    age_s = unconfirmed_s(clusters, topic, stopped, there)
    assert age_s is not None
    began = time.monotonic()
    journey.flee(there, clusters.brokers[stopped].freeze)
    at_risk = journey.account.acknowledged_since(asked - age_s)
    acknowledged = len(journey.account.acknowledged)
    journey.run_until(lambda: len(journey.account.acknowledged) > acknowledged, f"acknowledgements in {there}")
    pause_s = time.monotonic() - began
    for source, target in ((third, there), (there, third)):
        probe = f"{topic}-{source}"
        publish(clusters.client(source), probe, numbered(10))
        arrived = partial(holds, clusters, target, probe, 10)
        journey.run_until(arrived, f"{source} to {target} while {stopped} stands", timeout_s=RECOVERY_TIMEOUT_S)
    caught_up_s = time.monotonic() - began
    confirmed = partial(confirms_all_before, journey, clusters, topic, third)
    asked = time.monotonic()
    journey.run_until(lambda: confirmed(time.monotonic() - asked), f"progress in {third}", timeout_s=RECOVERY_TIMEOUT_S)
    journey.run(max(0.0, began + STOPPED_S - time.monotonic()))
    clusters.brokers[stopped].thaw()
    began = time.monotonic()
    journey.publish(stopped)
    back = partial(confirms_all_before, journey, clusters, topic, stopped, 1.0)
    journey.run_until(back, f"progress in {stopped}", timeout_s=RECOVERY_TIMEOUT_S)
    repeated = journey.account.take_repeated()
    move(journey, clusters, topic, stopped)
    back_s = time.monotonic() - began
    journey.run(2.0)
    journey.finish(RECOVERY_TIMEOUT_S)
    count = wait_for_equal_logs(clusters, topic, journey.account.published)
    later = journey.account.take_repeated()
    say(f"broker {stopped} stopped for {STOPPED_S:g} s: {count} messages, lost 0")
    say(f"repeated {len(repeated)}, at most {len(at_risk)}; after the switch back {len(later)}")
    say(f"consumers paused for {pause_s:.2f} s; the others had each other's messages after {caught_up_s:.1f} s")
    say(f"the consumers were back in {stopped} {back_s:.1f} s after it ran on")
    assert repeated <= at_risk, sorted(repeated - at_risk)
    assert later == set()


@pytest.mark.parametrize("kind", ["driver", "worker"])
def test_stopped_part_of_the_pipeline_repeats_and_loses_nothing(clusters: LocalClusters, kind: str) -> None:
    """Switch the consumers to another cluster and back meanwhile, because progress needs no pipeline."""
    say(f"\nMAGNETAR_CHAOS_SEED={SEED} MAGNETAR_CHAOS_STOPPED_S={STOPPED_S:g}")
    topic = f"persistent://{NAMESPACE}/{kind}"
    chance = random.Random(SEED)
    here, there, third = chance.sample(NAMES, 3)
    journey = Journey(clusters, topic, (here, there, third), Traffic(), chance)
    for other in (there, third):
        journey.run_until(partial(is_confirmed, clusters, topic, here, other), f"progress in {other}")
    journey.run(2.0)
    if kind == "driver":
        pids = clusters.driver_pids()
    else:
        pids = [chance.choice(wait_until(clusters.serving_worker_pids, RECOVERY_TIMEOUT_S, what="a worker"))]
    began = time.monotonic()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        journey.run(1.0)
        pauses_s = [move(journey, clusters, topic, to) for to in (there, here)]
        journey.run(max(0.0, began + STOPPED_S - time.monotonic()))
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    began = time.monotonic()
    for name in NAMES:
        wait_for_carrying(clusters, NAMESPACE, name)
    carried_s = time.monotonic() - began
    pauses_s += [move(journey, clusters, topic, to) for to in (there, here)]
    journey.run(1.0)
    journey.finish(RECOVERY_TIMEOUT_S)
    count = wait_for_equal_logs(clusters, topic, journey.account.published)
    repeated = journey.account.take_repeated()
    say(f"{kind} ({len(pids)} processes) stopped for {STOPPED_S:g} s: {count} messages, lost 0")
    say(f"repeated {len(repeated)}; switches waited {', '.join(f'{pause:.2f}' for pause in pauses_s)} s")
    say(f"messages were carried again {carried_s:.1f} s after it ran on")
    assert repeated == set()
