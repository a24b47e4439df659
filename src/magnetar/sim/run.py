"""One seed: faults and checks at every step, then peace, in which everything must converge and be consumed."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from magnetar.sim.content import Draft
from magnetar.sim.happenings import KINDS
from magnetar.sim.invariants import INVARIANTS
from magnetar.sim.limits import small_limits
from magnetar.sim.scenario import draw
from magnetar.sim.workload import Workload
from magnetar.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.clients.consumer import SimConsumer
    from magnetar.sim.site import Replica, Site
    from magnetar.sim.story import Story

STEP_S = 0.12
"""Virtual seconds between two actions, on the average."""

AWAY_S = 5.0
"""For how long the broker of a cluster is down while all is acknowledged in another one."""

HANGS_S = 40.0
"""For how long the broker of a cluster hangs until it is killed. Links give it up earlier."""

SNAPSHOTS_S = 2.0
"""Within so many seconds there are snapshots of all that was published."""

PEACE_S = 120.0
"""Virtual seconds within which everything must have converged; it is looked at every second."""


@dataclass(frozen=True)
class Verdict:
    """What became of a seed."""

    seed: int
    clusters: int
    steps: int
    violation: str
    """Which rule was broken, and how; empty when none was."""
    fingerprint: str
    """Equal for two runs in which the same happened."""
    entries: int
    """That were published."""
    deliveries: int
    virtual_s: float
    world: str = ""
    """What the world contained, in one line."""
    counts: tuple[tuple[str, int], ...] = ()
    """How often each event and each state occurred, in the order of names."""

    @property
    def command(self) -> str:
        """What runs this seed again, and tells its story."""
        return f"magnetar simulate --seed {self.seed} --clusters {self.clusters} --steps {self.steps} --story"


def judge(seed: int, clusters: int | None = None, steps: int | None = None) -> Verdict:
    """Run one seed, without its story."""
    return simulate(seed, clusters, steps)[0]


def simulate(seed: int, clusters: int | None = None, steps: int | None = None) -> tuple[Verdict, Story]:
    """Run one seed; ``clusters`` and ``steps`` replace what its scenario has."""
    scenario = draw(seed, KINDS, clusters, steps)
    gc.disable()  # a world is thrown away as a whole
    try:
        with small_limits():
            world = World(scenario, KINDS, INVARIANTS)
            try:
                with world.watched_log():
                    _run(world)
            finally:
                world.close()
    finally:
        gc.enable()
    referee = world.referee
    verdict = Verdict(
        seed=seed,
        clusters=len(scenario.clusters),
        steps=scenario.steps,
        violation=referee.violation,
        fingerprint=world.story.fingerprint,
        entries=sum(len(topic.model.texts) for topic in referee.topics.values()),
        deliveries=referee.deliveries,
        virtual_s=world.scheduler.now,
        world=str(scenario),
        counts=tuple(sorted(world.counts.items())),
    )
    return verdict, world.story


def _run(world: World) -> None:
    workload = Workload(world)
    world.run(1.0)
    workload.begin()
    for _ in range(world.scenario.steps):
        workload.act()
        world.run(world.chance.expovariate(1 / STEP_S))
        if world.referee.violation:
            return
    workload.heal()
    _wait(world, lambda: _missing(world))
    _consume(world)


def _consume(world: World) -> None:
    """What nobody acknowledged is delivered to who subscribes now, and then it is gone everywhere.

    In every cluster somebody does: one may have trimmed what a subscription that was made anew elsewhere wants again.
    """
    for consumer in world.consumers:
        consumer.stop()
    world.run(1.0)
    scenario = world.scenario
    last = [
        world.add_consumer(topic, name, cluster, earliest=True)
        for topic in scenario.topics
        for name in scenario.subscriptions
        for cluster in world.sites
    ]

    def left(only: str = "") -> str:
        for consumer in last:
            if consumer.held:
                consumer.acknowledge(list(consumer.held.values()), confirmed=True)
        return _backlog(world, only)

    for topic in scenario.topics:
        producer = next(each for each in world.producers if each.topic == topic)
        producer.publish(Draft(int(world.sites[producer.cluster].clock.now() * 1000)))
    _wait(world, left)
    if scenario.markers is not None and scenario.replicated:
        _consume_in_one(world, last, left)
    _wait(world, lambda: _missing(world))
    _wait(world, lambda: _first(invariant.at_end for invariant in world.invariants))


def _consume_in_one(world: World, consumers: list[SimConsumer], left_with: Callable[[str], str]) -> None:
    """Markers: what is acknowledged in one cluster alone is acknowledged in all, by snapshots and updates.

    If two others are left, the broker of one is down for a while, and nobody publishes there: no entry comes behind
    those that it gets late.
    """
    chosen, *others = world.chance.sample(list(world.sites), len(world.sites))
    left = partial(left_with, chosen)
    away = others[0] if len(others) > 1 else ""
    if away:
        world.kill(world.sites[away], AWAY_S)
    for consumer in consumers:
        if consumer.cluster != chosen:
            consumer.stop()
            consumer.held.clear()
    _publish(world, [cluster for cluster in world.sites if cluster != away])
    world.note(chosen, "is the only cluster with consumers from now on")
    _wait(world, lambda: _missing(world) or left())
    _acknowledge_while_one_hangs(world, world.sites[others[0]], left)


def _acknowledge_while_one_hangs(world: World, site: Site, left: Callable[[], str]) -> None:
    """A broker hangs and is killed: it must learn what was acknowledged meanwhile, though nothing is published later.

    All snapshots are complete before, so that each cluster is told once, and is not told again by another snapshot.
    """
    _publish(world, world.sites)
    _wait(world, lambda: _missing(world))
    world.run(SNAPSHOTS_S)
    world.note(site.name, "hangs")
    site.loop.stopped_until = world.scheduler.now + 2 * HANGS_S  # it is killed before that
    left()
    world.run(HANGS_S)
    world.kill(site, AWAY_S)
    _wait(world, lambda: _missing(world) or left())


def _publish(world: World, clusters: Collection[str]) -> None:
    """Publish one message with each producer in these clusters."""
    for producer in world.producers:
        if producer.cluster in clusters:
            producer.publish(Draft(int(world.sites[producer.cluster].clock.now() * 1000)))


def _missing(world: World) -> str:
    return _first(invariant.missing for invariant in world.invariants)


def _first(questions: Iterable[Callable[[], str]]) -> str:
    return next(filter(None, (question() for question in questions)), "")


def _wait(world: World, wanting: Callable[[], str]) -> None:
    """Let time pass until nothing is wanting any more; a violation if that does not come."""
    deadline = max(world.scheduler.now, world.peace_from_s) + PEACE_S
    while not world.referee.violation:
        missing = wanting()
        if not missing:
            return
        if world.scheduler.now > deadline:
            world.referee.violate(f"after {PEACE_S:g} s of peace {missing}")
        world.run(1.0)


def _backlog(world: World, only: str) -> str:
    """A backlog that somebody is left to consume; ``only`` is the one cluster with consumers, empty for all."""
    for site in world.sites.values():
        for replica in site.replicas.values():
            where = f"{replica.name.local_name} in {site.name}"
            if replica.topic is None:
                return f"{where} is not loaded"
            for name in world.scenario.subscriptions:
                subscription = replica.topic.subscriptions.get(name)
                if subscription is None:
                    return f"{where} has no subscription {name}"
                if subscription.backlog > _out_of_reach(world, replica, subscription, only):
                    return f"{where} has a backlog of {subscription.backlog} in {name}"
    return ""


def _out_of_reach(world: World, replica: Replica, subscription: Subscription, only: str) -> int:
    """How many entries the only cluster with consumers does not get: it, or another one, published and lost them."""
    if not only:
        return 0
    referee = world.referee.topics[replica.name]
    model, held = referee.model, referee.model.logs[only].places
    missing = (e for _, e in model.logs[replica.cluster].entries if model.is_lost(e) and e.text not in held)
    return sum(referee.checker.is_left(subscription, entry) for entry in missing)
