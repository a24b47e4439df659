"""The run of one seed of metadata: edits and faults, then the liveness phase, in which all clusters must agree."""

from __future__ import annotations

import contextlib
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
from magnetar.sim.metasync.speaking import events_watched
from magnetar.sim.run import carried_out, missing, verdict_of, wait
from magnetar.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.sim.metasync.scenario import MetadataScenario
    from magnetar.sim.run import Verdict
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
    with _small_limits():
        simulation = carried_out(lambda: MetadataSimulation(scenario, ACTION_GROUPS, INVARIANTS), _run)
    entries = sum(map(len, simulation.history.changes.values()))
    members = len(scenario.members)
    return verdict_of(simulation, seed, clusters=members, entries=entries, mode="--metadata"), simulation.trace


def _run(simulation: MetadataSimulation) -> None:
    with events_watched(simulation.checks.violate):
        _work(simulation)


def _work(simulation: MetadataSimulation) -> None:
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
