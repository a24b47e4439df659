"""Switches and rollbacks with crashes, lost answers and delayed requests at random, between two virtual brokers.

The world checks at each step that at most one cluster serves the clients of a topic, that messages come in order, and
that none is lost or repeated after it was acknowledged.
"""

from __future__ import annotations

import random

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.migration.machine.records import Begun, Found, StageMoved, SubscriptionsRemembered, TopicsMoved
from magnetar.migration.machine.tables import Stage, StageEvent, TopicEvent
from magnetar.migration.sides import UnansweredError
from magnetar.migration.switching.budget import Budget
from magnetar.migration.switching.recorder import Recorder
from magnetar.migration.switching.switch import Switch
from magnetar.migration.switching.topic_move import LEASE_S, Course
from tests.unit.migration.switching.mutants import MUTANTS, mutated
from tests.unit.migration.switching.virtual import (
    LATE_S,
    TENANT,
    CrashError,
    Interleaved,
    Remote,
    VirtualClock,
    VirtualJournal,
    World,
)

TOPICS = ("persistent://shop/orders/eu", *(f"persistent://shop/orders/us-partition-{index}" for index in range(2)))
RUNS_MAX = 120
SEEDS = range(25)
SEEDS_FOR_MUTANTS = range(300)
BUDGET = Budget(total_s=5.0, acknowledgements_s=0.5)
VERIFIED = StageMoved(StageEvent.VERIFIED, 0)


def ready(chance: random.Random, faults: int) -> World:
    """Return a world whose migration is ready and verified; clients use the source."""
    world = World(chance, TOPICS, faults)
    subscriptions = SubscriptionsRemembered({topic: {"billing": True} for topic in TOPICS})
    world.records += [
        *(Begun(TENANT, "ewr", "jfk"), Found(TOPICS), TopicsMoved(TopicEvent.CREATED, TOPICS)),
        *(StageMoved(StageEvent.METADATA_COPIED), TopicsMoved(TopicEvent.CARRIED, TOPICS)),
        *(StageMoved(StageEvent.DATA_CARRIED), subscriptions, TopicsMoved(TopicEvent.REPLICATED, TOPICS)),
        *(TopicsMoved(TopicEvent.AGREED, TOPICS), StageMoved(StageEvent.PROGRESS_AGREED), VERIFIED),
    ]
    return world


def run(world: World, wish: StageEvent) -> Stage:
    """Start the migrator once; return the stage at its end."""
    journal = VirtualJournal(world)
    sides = [Remote(broker) for broker in world.brokers.values()]
    course = Course(sides[0], sides[1], Recorder(journal), "m", VirtualClock(world), BUDGET)
    switch = Switch(course, journal.migration, [TENANT], Interleaved(world))
    try:
        switch.switch() if wish is StageEvent.SWITCH else switch.roll_back()
    except (CrashError, UnansweredError):
        return Stage.METADATA
    return journal.migration.stage


def finish(world: World, wish: StageEvent, goal: Stage) -> None:
    """Start the migrator until it has reached its goal."""
    for _ in range(RUNS_MAX):
        if run(world, wish) is goal:
            return
    message = f"{wish.value} does not end"
    raise AssertionError(message)


def story(seed: int) -> World:
    """Run a switch, perhaps a rollback in its middle, a rollback, and another switch."""
    chance = random.Random(seed)
    world = ready(chance, faults=chance.randrange(1, 30))
    if chance.random() < 0.5:  # the operator changes his mind
        for _ in range(chance.randrange(1, 6)):
            if run(world, StageEvent.SWITCH) is Stage.SWITCHED:
                break
        if StageMoved(StageEvent.SWITCH) in world.records:
            finish(world, StageEvent.ROLL_BACK, Stage.READY)
            check_end(world, "ewr")
            world.records.append(VERIFIED)
        world.faults += chance.randrange(10)
    finish(world, StageEvent.SWITCH, Stage.SWITCHED)
    check_end(world, "jfk")
    world.faults += chance.randrange(15)
    finish(world, StageEvent.ROLL_BACK, Stage.READY)
    check_end(world, "ewr")
    return world


def check_end(world: World, cluster: str) -> None:
    """Check that one cluster serves all clients, and that all messages reach them there."""
    world.may_create = False
    world.pass_time(LATE_S + LEASE_S)  # a delayed request may have fenced a topic once more
    serving, away = world.brokers[cluster], world.brokers[cluster].other
    for name in world.names():
        assert serving.serves(name), f"{cluster} does not serve {name}"
        assert not away.serves(name)
        stored = serving.of(name).numbers
        assert stored == dict.fromkeys(range(1, world.published[name] + 1), 1), "messages are lost or stored twice"
        while serving.of(name).left:
            world.deliver(serving, name)
            world.acknowledge(serving, name)
        assert world.delivered[name] == world.published[name]
    for broker in world.brokers.values():
        assert [scope for scope, (found, _) in broker.route.items() if found] == [TENANT]
    world.may_create = True


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_are_served_by_one_cluster_and_lose_nothing(seed: int) -> None:
    story(seed)


@pytest.mark.long
def test_clients_are_served_by_one_cluster_with_many_seeds() -> None:
    for seed in range(1_000):
        story(seed)


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_found(name: str) -> None:
    with mutated(name):
        assert any(map(is_violated, SEEDS_FOR_MUTANTS))


def is_violated(seed: int) -> bool:
    try:
        story(seed)
    except (AssertionError, MagnetarError):
        return True
    return False
