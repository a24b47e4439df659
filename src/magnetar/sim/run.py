"""The run of one seed: faults and checks at every step, then the liveness phase: convergence and consumption."""

from __future__ import annotations

import gc
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from magnetar.sim.actions import ACTION_GROUPS
from magnetar.sim.actions.members import Members
from magnetar.sim.content import Draft
from magnetar.sim.invariants import INVARIANTS
from magnetar.sim.invariants.custody import Custody
from magnetar.sim.limits import small_limits
from magnetar.sim.scenario import draw
from magnetar.sim.simulation import Simulation
from magnetar.sim.speaking import progress_watched
from magnetar.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.site import Replica, Site
    from magnetar.sim.trace import Trace

SimulationT = TypeVar("SimulationT", bound=Simulation)

STEP_S = 0.12
"""Average virtual seconds between two actions."""

AWAY_S = 5.0
"""Virtual seconds for which a cluster's broker is down while everything is acknowledged in another one."""

HANGS_S = 40.0
"""Virtual seconds for which a broker hangs until it is killed. Links time out earlier."""

SNAPSHOTS_S = 2.0
"""Virtual seconds after which the snapshots of all published entries are complete."""

LIVENESS_S = 120.0
"""Virtual seconds within which everything must have converged, checked every second."""


@dataclass(frozen=True)
class Verdict:
    """The result of a run."""

    seed: int
    clusters: int
    steps: int
    violation: str
    """The first violated invariant, with details; empty if there is none."""
    fingerprint: str
    """Equal for two runs with the same events."""
    entries: int
    """Number of published entries."""
    deliveries: int
    virtual_s: float
    world: str = ""
    """The scenario in one line."""
    counts: tuple[tuple[str, int], ...] = ()
    """The occurrences of each event and each state, by name, sorted."""
    mode: str = ""
    """The option that selects the worlds of metadata; empty for the others."""

    @property
    def command(self) -> str:
        """The command that repeats this run and prints its trace."""
        mode = f"{self.mode} " if self.mode else ""
        return f"magnetar simulate {mode}--seed {self.seed} --clusters {self.clusters} --steps {self.steps} --story"


def judge(seed: int, clusters: int | None = None, steps: int | None = None) -> Verdict:
    """Run one seed; return the verdict without the trace."""
    return simulate(seed, clusters, steps)[0]


def simulate(seed: int, clusters: int | None = None, steps: int | None = None) -> tuple[Verdict, Trace]:
    """Run one seed; ``clusters`` and ``steps`` override its scenario."""
    scenario = draw(seed, ACTION_GROUPS, clusters, steps)
    with small_limits():
        simulation = carried_out(lambda: Simulation(scenario, ACTION_GROUPS, INVARIANTS), _run)
    entries = sum(len(topic.model.texts) for topic in simulation.checks.topics.values())
    return verdict_of(simulation, seed, clusters=len(scenario.clusters), entries=entries), simulation.trace


def carried_out(make: Callable[[], SimulationT], run: Callable[[SimulationT], None]) -> SimulationT:
    """Make, run and close a simulation; an exception in a check or an action is a violation of its seed."""
    gc.disable()  # a simulation is freed as a whole
    try:
        simulation = make()
        try:
            with simulation.watched_log():
                run(simulation)
        except Exception as error:  # noqa: BLE001 - the verdict names it
            place = traceback.extract_tb(error.__traceback__)[-1]
            simulation.checks.violate(f"{error!r} in {place.name}, line {place.lineno} of {Path(place.filename).name}")
        finally:
            simulation.close()
    finally:
        gc.enable()
    return simulation


def verdict_of(simulation: Simulation, seed: int, *, clusters: int, entries: int, mode: str = "") -> Verdict:
    """Return the verdict on a simulation that was carried out."""
    return Verdict(
        seed=seed,
        clusters=clusters,
        steps=simulation.scenario.steps,
        violation=simulation.checks.violation,
        fingerprint=simulation.trace.fingerprint,
        entries=entries,
        deliveries=simulation.checks.deliveries,
        virtual_s=simulation.scheduler.now,
        world=str(simulation.scenario),
        counts=tuple(sorted(simulation.counts.items())),
        mode=mode,
    )


def _run(simulation: Simulation) -> None:
    with progress_watched(simulation.checks.violate):
        _work(simulation)


def _work(simulation: Simulation) -> None:
    workload = Workload(simulation)
    simulation.run(1.0)
    workload.begin()
    for _ in range(simulation.scenario.steps):
        workload.act()
        simulation.run(simulation.chance.expovariate(1 / STEP_S))
        if simulation.checks.violation:
            return
    workload.heal()
    simulation.group(Members).move_on()
    custody = next(each for each in simulation.invariants if isinstance(each, Custody))
    wait(simulation, custody.left)
    simulation.group(Members).come_back()
    wait(simulation, custody.left)
    simulation.group(Members).rejoin()
    wait(simulation, lambda: missing(simulation))
    _consume(simulation)


def _consume(simulation: Simulation) -> None:
    """Check that new consumers get all unacknowledged messages, and that nothing is left afterwards.

    Every cluster has a consumer of each subscription, because a cluster may have trimmed messages that a subscription
    created again elsewhere still needs.
    """
    for consumer in simulation.consumers:
        consumer.stop()
    simulation.run(1.0)
    scenario = simulation.scenario
    last = [
        simulation.add_consumer(topic, name, cluster, earliest=True)
        for topic in scenario.topics
        for name in scenario.subscriptions
        for cluster in simulation.sites
    ]

    def left(only: str = "") -> str:
        for consumer in last:
            if consumer.held:
                consumer.acknowledge(list(consumer.held.values()), confirmed=True)
        return _backlog(simulation, only)

    for topic in scenario.topics:
        producer = next(each for each in simulation.producers if each.topic == topic)
        producer.publish(Draft(int(simulation.sites[producer.cluster].clock.now() * 1000)))
    wait(simulation, left)
    if scenario.markers is not None and scenario.replicated:
        _consume_in_one(simulation, last, left)
    wait(simulation, lambda: missing(simulation))
    wait(simulation, lambda: _first(invariant.at_end for invariant in simulation.invariants))


def _consume_in_one(simulation: Simulation, consumers: list[SimConsumer], left_with: Callable[[str], str]) -> None:
    """Markers: acknowledgements in a single cluster reach all others, by snapshots and updates.

    If there are two others, the broker of one is down for a while, and no producer publishes there, so that no entry
    follows those that it gets late.
    """
    chosen, *others = simulation.chance.sample(list(simulation.sites), len(simulation.sites))
    left = partial(left_with, chosen)
    away = others[0] if len(others) > 1 else ""
    if away:
        simulation.kill(simulation.sites[away], AWAY_S)
    for consumer in consumers:
        if consumer.cluster != chosen:
            consumer.stop()
            consumer.held.clear()
    _publish(simulation, [cluster for cluster in simulation.sites if cluster != away])
    simulation.note(chosen, "is the only cluster with consumers from now on")
    wait(simulation, lambda: missing(simulation) or left())
    _acknowledge_while_one_hangs(simulation, simulation.sites[others[0]], left)


def _acknowledge_while_one_hangs(simulation: Simulation, site: Site, left: Callable[[], str]) -> None:
    """Check that a broker that hung and was killed learns of acknowledgements, though nothing is published later.

    All snapshots are complete before, so that each cluster gets one update, and none from a later snapshot.
    """
    _publish(simulation, simulation.sites)
    wait(simulation, lambda: missing(simulation))
    simulation.run(SNAPSHOTS_S)
    simulation.note(site.name, "hangs")
    site.loop.stopped_until = simulation.scheduler.now + 2 * HANGS_S  # the broker is killed before that
    left()
    simulation.run(HANGS_S)
    simulation.kill(site, AWAY_S)
    wait(simulation, lambda: missing(simulation) or left())


def _publish(simulation: Simulation, clusters: Collection[str]) -> None:
    """Publish one message with each producer in these clusters."""
    for producer in simulation.producers:
        if producer.cluster in clusters:
            producer.publish(Draft(int(simulation.sites[producer.cluster].clock.now() * 1000)))


def missing(simulation: Simulation) -> str:
    """Return a reason why the liveness phase is not complete, or an empty string."""
    return _first(invariant.missing for invariant in simulation.invariants)


def _first(questions: Iterable[Callable[[], str]]) -> str:
    return next(filter(None, (question() for question in questions)), "")


def wait(simulation: Simulation, wanting: Callable[[], str]) -> None:
    """Run until ``wanting`` returns an empty string; report a violation after the time limit."""
    deadline = max(simulation.scheduler.now, simulation.last_repair_s) + LIVENESS_S
    while not simulation.checks.violation:
        missing = wanting()
        if not missing:
            return
        if simulation.scheduler.now > deadline:
            simulation.checks.violate(f"after {LIVENESS_S:g} s without faults {missing}")
        simulation.run(1.0)


def _backlog(simulation: Simulation, only: str) -> str:
    """Return a backlog that should have been consumed; ``only``: the one cluster with consumers, empty for all."""
    for site in simulation.sites.values():
        for replica in site.replicas.values():
            where = f"{replica.name.local_name} in {site.name}"
            if replica.topic is None:
                return f"{where} is not loaded"
            for name in simulation.scenario.subscriptions:
                subscription = replica.topic.subscriptions.get(name)
                if subscription is None:
                    return f"{where} has no subscription {name}"
                if subscription.backlog > _out_of_reach(simulation, replica, subscription, only):
                    return f"{where} has a backlog of {subscription.backlog} in {name}"
    return ""


def _out_of_reach(simulation: Simulation, replica: Replica, subscription: Subscription, only: str) -> int:
    """Count the entries that the only cluster with consumers cannot get, because their origin lost them."""
    if not only:
        return 0
    checks = simulation.checks.topics[replica.name]
    model, held = checks.model, checks.model.logs[only].places
    missing = (e for _, e in model.logs[replica.cluster].entries if model.is_lost(e) and e.text not in held)
    return sum(checks.checker.is_left(subscription, entry) for entry in missing)
