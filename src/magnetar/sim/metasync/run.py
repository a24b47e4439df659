"""The run of one seed of metadata: edits and faults, then the liveness phase, in which all clusters must agree."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, cast

from magnetar.metasync import store
from magnetar.sim.actions.pipelines import Pipelines
from magnetar.sim.actions.storage.disks import Disks
from magnetar.sim.metasync.edits import Edits
from magnetar.sim.metasync.faults import (
    Brokers,
    HostileEvents,
    LateMembers,
    Links,
    LostDisks,
    SkewedClocks,
    Stores,
    Trims,
)
from magnetar.sim.metasync.invariants import Agreement, Bounds
from magnetar.sim.metasync.scenario import draw
from magnetar.sim.metasync.simulation import MetadataSimulation
from magnetar.sim.run import Verdict, missing, wait
from magnetar.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.sim.metasync.scenario import MetadataScenario
    from magnetar.sim.trace import Trace

ACTION_GROUPS = (
    Edits,
    Trims,
    Brokers,
    Links,
    Disks,
    Stores,
    Pipelines,
    SkewedClocks,
    LostDisks,
    LateMembers,
    HostileEvents,
)

INVARIANTS = (Agreement, Bounds)

STABLE_S = 5.0
"""Virtual seconds, beside a snapshot, for which all clusters must go on agreeing."""

REFUSED_MAX = 5
"""Maximum number of refused events that a simulated broker keeps."""


def judge(seed: int, clusters: int | None = None, steps: int | None = None) -> Verdict:
    """Run one seed; return the verdict without the trace."""
    return simulate(seed, clusters, steps)[0]


def simulate(seed: int, clusters: int | None = None, steps: int | None = None) -> tuple[Verdict, Trace]:
    """Run one seed; ``clusters`` and ``steps`` override its scenario."""
    scenario = draw(seed, ACTION_GROUPS, clusters, steps)
    gc.disable()  # a simulation is freed as a whole
    try:
        with _small_limits():
            simulation = MetadataSimulation(scenario, ACTION_GROUPS, INVARIANTS)
            try:
                with simulation.watched_log():
                    _run(simulation)
            finally:
                simulation.close()
    finally:
        gc.enable()
    changes = simulation.history.changes.values()
    verdict = Verdict(
        seed=seed,
        clusters=len(scenario.members),
        steps=scenario.steps,
        violation=simulation.checks.violation,
        fingerprint=simulation.trace.fingerprint,
        entries=sum(map(len, changes)),
        deliveries=simulation.checks.deliveries,
        virtual_s=simulation.scheduler.now,
        world=str(scenario),
        counts=tuple(sorted(simulation.counts.items())),
        mode="--metadata",
    )
    return verdict, simulation.trace


def _run(simulation: MetadataSimulation) -> None:
    scenario = cast("MetadataScenario", simulation.scenario)
    workload = Workload(simulation)
    simulation.run(1.0)
    workload.begin()
    for _ in range(scenario.steps):
        workload.act()
        simulation.run(simulation.chance.expovariate(1 / scenario.step_s))
        if simulation.checks.violation:
            return
    workload.heal()
    wait(simulation, lambda: missing(simulation))
    simulation.run(scenario.snapshot_s + STABLE_S)
    wait(simulation, lambda: missing(simulation))
    for invariant in simulation.invariants:
        end = invariant.at_end()
        if end:
            simulation.checks.violate(end)


@contextlib.contextmanager
def _small_limits() -> Iterator[None]:
    before, store.REFUSED_MAX = store.REFUSED_MAX, REFUSED_MAX
    try:
        yield
    finally:
        store.REFUSED_MAX = before
