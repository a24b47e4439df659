"""Whole migrations with a crash after every record and after every effect: each continues to the same end."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from magnetar.migration.machine.effects import Effect, EffectKind
from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    Record,
    Routed,
    StageMoved,
    SubscriptionsRemembered,
    TopicsClosed,
    TopicsFenced,
    TopicsMoved,
    from_json,
    to_json,
)
from magnetar.migration.machine.tables import BACK, FORWARD, PlaceEvent, Stage, StageEvent, TopicEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERS = "shop/orders"
OPERATOR = {Stage.READY, Stage.SWITCHED}
"""Stages that end when the operator wants."""
_OUTCOMES = {
    EffectKind.CREATE: TopicEvent.CREATED,
    EffectKind.AWAIT_DATA: TopicEvent.CARRIED,
    EffectKind.REPLICATE: TopicEvent.REPLICATED,
    EffectKind.AWAIT_PROGRESS: TopicEvent.AGREED,
    EffectKind.BEGIN_SWITCH: TopicEvent.FENCE,
    EffectKind.BEGIN_RETURN: TopicEvent.FENCE,
    EffectKind.DRAIN: TopicEvent.DRAINED,
    EffectKind.HAND_OVER: TopicEvent.SEAL,
    EffectKind.SEAL: TopicEvent.SEALED,
    EffectKind.ROUTE: TopicEvent.ROUTED,
    EffectKind.RELEASE: TopicEvent.RELEASED,
    EffectKind.RESTORE: TopicEvent.RESTORED,
    EffectKind.DELETE: TopicEvent.DELETED,
}
_OUTCOMES_OF_A_SWITCH = (EffectKind.DRAIN, EffectKind.HAND_OVER, EffectKind.SEAL, EffectKind.ROUTE)


class CrashError(Exception):
    """The process is killed."""


@dataclass
class World:
    """Both clusters, and the journal on a disk. A crash leaves them as they are."""

    records: list[Record] = field(default_factory=list)
    crash_at: int | None = None
    """The number of the step after which the process is killed."""
    steps: int = 0
    created: set[str] = field(default_factory=set)
    replicated: dict[str, dict[str, bool]] = field(
        default_factory=lambda: {"eu": {"billing": False, "audit": True}, "us": {}}
    )
    clusters: tuple[str, ...] = ("ewr",)
    at: dict[str, str] = field(default_factory=lambda: {"eu": "ewr", "us": "ewr"})
    fenced: set[tuple[str, str]] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    routed: str = ""

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.crash_at:
            raise CrashError

    def store(self, record: Record) -> None:
        self.records.append(from_json(to_json(record)))
        self.step()


class Runner:
    """A process that runs a migration; it begins with what the journal has."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.migration = Migration()
        for record in world.records:
            self.migration.apply(record)

    def record(self, record: Record) -> None:
        deepcopy(self.migration).apply(record)
        self.world.store(record)
        self.migration.apply(record)

    def run(self, wishes: Sequence[StageEvent]) -> None:
        """Perform what is due; the operator has ``wishes``, in this order."""
        if self.migration.begun is None:
            self.record(Begun("shop", "ewr", "jfk"))
        while True:
            due = self.migration.due()
            completion = self.migration.completion()
            if due:
                self.perform(due[0])
            elif completion is not None:
                self.record(completion)
            elif not self.decide(wishes):
                return

    def decide(self, wishes: Sequence[StageEvent]) -> bool:
        """Record what the operator wants next; those that are stored were wanted before."""
        kinds = {StageEvent.VERIFIED, StageEvent.SWITCH, StageEvent.ROLL_BACK, StageEvent.CLEAN_UP, StageEvent.ABANDON}
        done = sum(isinstance(each, StageMoved) and each.event in kinds for each in self.world.records)
        if done == len(wishes):
            return False
        wish = wishes[done]
        self.record(StageMoved(wish, 0 if wish is StageEvent.VERIFIED else None))
        return True

    def perform(self, effect: Effect) -> None:
        match effect.kind:
            case EffectKind.COPY_METADATA:
                self.world.step()
                self.record(Found(("eu", "us"), (ORDERS,)))
            case EffectKind.REMEMBER_CLUSTERS:
                self.record(PlaceMoved(PlaceEvent.REMEMBERED, ORDERS, self.world.clusters))
            case EffectKind.LINK:
                self.world.clusters = ("ewr", "jfk")
                self.world.step()
                self.record(PlaceMoved(PlaceEvent.LINKED, ORDERS))
            case EffectKind.UNLINK:
                done = self.migration.stage is Stage.CLEANUP
                self.world.clusters = ("jfk",) if done else self.migration.clusters_before.get(ORDERS, ("ewr",))
                self.world.step()
                self.record(PlaceMoved(PlaceEvent.UNLINKED, ORDERS))
            case EffectKind.REMEMBER_SUBSCRIPTIONS:
                self.record(
                    SubscriptionsRemembered({topic: dict(self.world.replicated[topic]) for topic in effect.names})
                )
            case EffectKind.LIST:
                self.record(Found())
            case EffectKind.ROUTE_ALL:
                self.world.routed = effect.names[0]
                self.world.step()
                self.record(Routed(effect.names[0]))
            case _:
                for topic in effect.names:
                    self.change(effect.kind, topic)
                    self.world.step()
                    self.record(outcome(effect.kind, topic))

    def leaves(self, topic: str) -> str:
        """Return the cluster that the clients of a topic leave."""
        return "ewr" if self.migration.topics[topic] in (FORWARD.start, *FORWARD.between) else "jfk"

    def change(self, kind: EffectKind, topic: str) -> None:
        world, before = self.world, self.migration.replicated_before.get(topic, {})
        match kind:
            case EffectKind.CREATE:
                world.created.add(topic)
            case EffectKind.REPLICATE:
                assert before.keys() == world.replicated[topic].keys(), "settings are remembered first"
                world.replicated[topic] = dict.fromkeys(before, True)
            case EffectKind.RESTORE:
                world.replicated[topic] |= before
            case EffectKind.FENCE:
                world.fenced.add((topic, self.leaves(topic)))
            case EffectKind.RELEASE:
                world.fenced.discard((topic, self.leaves(topic)))
            case EffectKind.ROUTE:
                world.at[topic] = "jfk" if self.leaves(topic) == "ewr" else "ewr"
                world.fenced.discard((topic, world.at[topic]))
            case EffectKind.DELETE:
                assert world.clusters == ("jfk",), "links end first"
                world.deleted.add(topic)


def outcome(kind: EffectKind, topic: str) -> Record:
    match kind:
        case EffectKind.FENCE:
            return TopicsFenced({topic: {}})
        case EffectKind.SETTLE:
            return TopicsClosed({topic: 0})
    return TopicsMoved(_OUTCOMES[kind], (topic,))


STORIES = {
    "to the end": (StageEvent.VERIFIED, StageEvent.SWITCH, StageEvent.CLEAN_UP),
    "there and back": (StageEvent.VERIFIED, StageEvent.SWITCH, StageEvent.ROLL_BACK),
    "there, back and there": (
        *(StageEvent.VERIFIED, StageEvent.SWITCH, StageEvent.ROLL_BACK),
        *(StageEvent.VERIFIED, StageEvent.SWITCH, StageEvent.CLEAN_UP),
    ),
    "abandoned": (StageEvent.ABANDON,),
}


def finished(wishes: Sequence[StageEvent], crash_at: int | None = None) -> World:
    world = World(crash_at=crash_at)
    while True:
        try:
            Runner(world).run(wishes)
        except CrashError:
            continue
        return world


@pytest.mark.parametrize("story", STORIES)
def test_a_migration_continues_after_a_crash_at_any_point(story: str) -> None:
    wishes = STORIES[story]
    expected = finished(wishes)
    assert expected.steps > 20 or story == "abandoned"
    for crash_at in range(1, expected.steps + 1):
        found = finished(wishes, crash_at)
        found.steps, found.crash_at, found.records = expected.steps, None, expected.records
        assert found == expected, crash_at


@pytest.mark.parametrize("story", STORIES)
def test_the_records_give_the_state_that_they_led_to(story: str) -> None:
    world = finished(STORIES[story])
    migration = Migration()
    for count, record in enumerate(world.records, 1):
        migration.apply(record)
        again = Migration()
        for each in world.records[:count]:
            again.apply(each)
        assert again == migration
        assert again.due() == migration.due()


def test_what_a_migration_leaves_behind() -> None:
    moved = finished(STORIES["to the end"])
    assert (moved.at, moved.routed) == ({"eu": "jfk", "us": "jfk"}, "jfk")
    assert moved.replicated == World().replicated, "settings of subscriptions are restored"
    assert (moved.clusters, moved.deleted) == (("jfk",), {"eu", "us"})
    returned = finished(STORIES["there and back"])
    assert (returned.at, returned.routed) == ({"eu": "ewr", "us": "ewr"}, "ewr")
    assert (returned.fenced & {("eu", "ewr"), ("us", "ewr")}, returned.deleted) == (set(), set())
    abandoned = finished(STORIES["abandoned"])
    assert (abandoned.at, abandoned.clusters) == ({"eu": "ewr", "us": "ewr"}, ("ewr",))
    assert abandoned.replicated == World().replicated


@pytest.mark.parametrize("steps", range(8))
def test_a_rollback_in_the_middle_of_a_switch_sends_all_clients_back(steps: int) -> None:
    world = World()
    Runner(world).run([StageEvent.VERIFIED])
    runner = Runner(world)
    runner.record(StageMoved(StageEvent.SWITCH))
    runner.record(Routed("ewr"))
    kinds = (EffectKind.BEGIN_SWITCH, EffectKind.FENCE, EffectKind.SETTLE, *_OUTCOMES_OF_A_SWITCH)
    for kind in kinds[:steps]:
        runner.change(kind, "eu")
        runner.record(outcome(kind, "eu"))
    runner.record(StageMoved(StageEvent.ROLL_BACK))
    Runner(world).run([StageEvent.VERIFIED, StageEvent.SWITCH, StageEvent.ROLL_BACK])
    found = Runner(world)
    assert found.migration.stage is Stage.READY
    assert world.at == {"eu": "ewr", "us": "ewr"}
    assert ("eu", "ewr") not in world.fenced
    assert found.migration.topics == {"eu": BACK.end, "us": BACK.end}
    assert found.migration.differences is None, "a new switch is verified anew"
