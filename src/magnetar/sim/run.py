"""One seed: faults and checks at every step, then peace, in which everything must converge and be consumed."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.sim.workload import Workload
from magnetar.sim.world import SUBSCRIPTIONS, World

if TYPE_CHECKING:
    from magnetar.sim.site import Site
    from magnetar.sim.story import Story

STEPS = 120
"""Things that happen to a world before it is left in peace, if nothing else is said."""

STEP_S = 0.12
"""How far apart they are, on the average."""

PEACE_S = 120.0
"""Within which everything must have converged; it is looked at every second."""


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

    @property
    def command(self) -> str:
        """What runs this seed again, and tells its story."""
        return f"magnetar simulate --seed {self.seed} --clusters {self.clusters} --steps {self.steps} --story"


def clusters_of(seed: int) -> int:
    """How many clusters a seed has, if nothing else is said: 3 to 5, mostly 3."""
    return (3, 3, 4, 3, 5)[seed % 5]


def judge(seed: int, clusters: int | None = None, steps: int = STEPS) -> Verdict:
    """Run one seed, without its story."""
    return simulate(seed, clusters, steps)[0]


def simulate(seed: int, clusters: int | None = None, steps: int = STEPS) -> tuple[Verdict, Story]:
    """Run one seed."""
    count = clusters_of(seed) if clusters is None else clusters
    world = World(seed, count)
    gc.disable()  # a world is thrown away as a whole
    try:
        with world.watched_log():
            _run(world, steps)
    finally:
        world.close()
        gc.enable()
    referee = world.referee
    verdict = Verdict(
        seed=seed,
        clusters=count,
        steps=steps,
        violation=referee.violation,
        fingerprint=world.story.fingerprint,
        entries=len(referee.model.texts),
        deliveries=referee.deliveries,
        virtual_s=world.scheduler.now,
    )
    return verdict, world.story


def _run(world: World, steps: int) -> None:
    workload = Workload(world)
    world.run(1.0)
    workload.begin()
    for _ in range(steps):
        workload.act()
        world.run(world.chance.expovariate(1 / STEP_S))
        if world.referee.violation:
            return
    workload.heal()
    _converge(world)
    _consume(world)


def _converge(world: World) -> None:
    """Everything that was published is everywhere, and everybody says the same of every subscription."""
    _wait(world, _difference)


def _consume(world: World) -> None:
    """What nobody acknowledged is delivered to who subscribes now, and then it is gone everywhere.

    In every cluster somebody does: one may have trimmed what a subscription that was made anew elsewhere wants again.
    """
    for consumer in world.consumers:
        consumer.stop()
    world.run(1.0)
    last = [world.add_consumer(name, cluster, earliest=True) for name in SUBSCRIPTIONS for cluster in world.sites]
    producer = world.producers[0]

    def left(world: World) -> str:
        for consumer in last:
            if consumer.held:
                consumer.acknowledge(list(consumer.held.values()), confirmed=True)
        return _backlog(world)

    producer.publish(1, int(world.sites[producer.cluster].clock.now() * 1000))
    _wait(world, left)
    _wait(world, _difference)


def _wait(world: World, wanting: object) -> None:
    """Let time pass until nothing is wanting any more; a violation if that does not come."""
    assert callable(wanting)
    deadline = world.scheduler.now + PEACE_S
    while not world.referee.violation:
        missing = wanting(world)
        if not missing:
            return
        if world.scheduler.now > deadline:
            world.referee.violate(f"after {PEACE_S:g} s of peace {missing}")
        world.run(1.0)


def _difference(world: World) -> str:
    sites = list(world.sites.values())
    unready = [site.name for site in sites if site.topic is None]
    if unready:
        return f"{unready} have not loaded the topic"
    unsent = [producer.name for producer in world.producers if producer.pending]
    if unsent:
        return f"{unsent} have messages without receipts"
    model = world.referee.model
    for site in sites:
        for cluster, published in model.published.items():
            held = len(model.logs[site.name].of.get(cluster, []))
            if held != len(published):
                return f"{site.name} holds {held} of the {len(published)} entries of {cluster}"
    for name in SUBSCRIPTIONS:
        states = {site.name: _state(world, site, name) for site in sites}
        first, *others = states.items()
        for other in others:
            if other[1] != first[1]:
                return f"{name}: {first[0]} and {other[0]} differ: {_apart(first[1], other[1])}"
    return ""


def _state(world: World, site: Site, name: str) -> dict[str, object]:
    """What a cluster says of a subscription: its epoch, and what is left of each entry."""
    assert site.topic is not None
    subscription = site.topic.subscriptions.get(name)
    if subscription is None or subscription.progress is None:
        return {}
    checker, model = world.referee.checker, world.referee.model
    state = subscription.progress.state
    left = {text: checker.unclaimed(state, entry) for text, entry in model.texts.items()}
    return {"epoch": state.epoch, **{text: bits for text, bits in left.items() if bits}}


def _apart(one: dict[str, object], other: dict[str, object]) -> str:
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return ", ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in keys[:4])


def _backlog(world: World) -> str:
    for site in world.sites.values():
        if site.topic is None:
            return f"{site.name} has not loaded the topic"
        for name in SUBSCRIPTIONS:
            subscription = site.topic.subscriptions.get(name)
            if subscription is None:
                return f"{site.name} has no subscription {name}"
            if subscription.backlog:
                return f"{site.name} has a backlog of {subscription.backlog} in {name}"
    return ""
