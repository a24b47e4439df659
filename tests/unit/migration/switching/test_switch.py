"""Switches between two virtual brokers, without faults: what is released, waits and counts."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import InterruptedMigrationError, MigrationError, MigrationStateError
from magnetar.migration.machine.records import TopicsMoved
from magnetar.migration.machine.tables import FORWARD, Stage, TopicEvent
from magnetar.migration.sides import UnansweredError
from magnetar.migration.switching.budget import Budget
from magnetar.migration.switching.cluster import FenceRefusedError, ProducerState
from magnetar.migration.switching.fence import Fence, Phase
from magnetar.migration.switching.handover import ByLinks
from magnetar.migration.switching.recorder import Recorder
from magnetar.migration.switching.switch import Driver, Progress, Switch, Threads
from magnetar.migration.switching.topic_move import LEASE_S, Course
from tests.unit.migration.switching.test_interleavings import TOPICS, ready
from tests.unit.migration.switching.virtual import (
    SIDE,
    TENANT,
    Interleaved,
    Remote,
    Topic,
    VirtualClock,
    VirtualJournal,
    World,
)

if TYPE_CHECKING:
    from magnetar.migration.switching.cluster import Cluster
    from magnetar.migration.switching.handover import Handover, Look

EU, *US = TOPICS
BUDGET = Budget(total_s=5.0, acknowledgements_s=0.5)


class StillWorld(World):
    """Nothing happens unless the test does it; links and progress carry everything when time passes."""

    def __init__(self) -> None:
        source = ready(random.Random(0), faults=0)
        super().__init__(random.Random(0), TOPICS, faults=0)
        self.records = source.records
        self.stuck: set[str] = set()
        """Topics whose links carry nothing."""

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for broker in self.brokers.values():
            broker.expire()
            for name in self.names():
                if name not in self.stuck:
                    self.carry(broker, name)
                    self.confirm(broker, name)
        self.check()


@dataclass
class Refusing(Remote):
    """A cluster that refuses to translate ids."""

    def set_former(self, topic: str, cluster: str) -> str:
        return f"its ledger ids are too low for {cluster}" if topic == EU else ""


@dataclass
class Silent(Remote):
    """A cluster that does not answer."""

    def look(self, topic: str, *, digests: bool = False) -> None:  # type: ignore[override]
        raise UnansweredError(SIDE)


class Unloading:
    """A cluster that clients leave some time after the first look at a topic."""

    LEAVING_S = 1.0

    def __init__(self, world: World) -> None:
        self._world = world
        self._looked_at: dict[str, float] = {}

    def prepare(self, topic: str, entered: Cluster) -> None:
        pass

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        look()
        since = self._looked_at.setdefault(topic, self._world.now)
        return "" if self._world.now - since >= self.LEAVING_S else "1 clients are connected"


class Counted(ByLinks):
    """Lacks something at the first look at each topic, and counts the looks at which nothing is missing."""

    def __init__(self) -> None:
        self.complete = Counter[str]()
        self._looked_at = set[str]()

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        reason = super().missing(topic, entered, look)
        if topic not in self._looked_at:
            self._looked_at.add(topic)
            return "something"
        self.complete[topic] += not reason
        return reason


class Run:
    """One start of the migrator."""

    def __init__(
        self,
        world: World,
        *,
        target: type[Remote] = Remote,
        drive: Driver | None = None,
        only: tuple[str, ...] = (),
        handover: Handover | None = None,
    ) -> None:
        self.journal = VirtualJournal(world)
        ewr, jfk = world.brokers.values()
        self.told: list[Progress] = []
        recorder, clock = Recorder(self.journal), VirtualClock(world)
        self.course = Course(Remote(ewr), target(jfk), recorder, "m", clock, BUDGET, handover=handover or ByLinks())
        drive = drive or Interleaved(world)
        self.switch = Switch(self.course, self.journal.migration, [TENANT], drive, self.told.append, only=only)

    @property
    def stage(self) -> Stage:
        return self.journal.migration.stage


@pytest.fixture
def world() -> StillWorld:
    return StillWorld()


def served_by(world: World, name: str) -> list[str]:
    return [broker.name for broker in world.brokers.values() if broker.serves(name)]


def test_a_switch_and_a_rollback_are_measured(world: StillWorld) -> None:
    there = Run(world)
    there.switch.switch()
    assert (there.stage, there.switch.released) == (Stage.SWITCHED, {})
    assert {name: served_by(world, name) for name in TOPICS} == {name: ["jfk"] for name in TOPICS}
    figures = there.course.figures
    assert (sorted(figures.moved), len(figures.unavailable_ms), figures.unmeasured) == (sorted(TOPICS), 2, 0)
    assert all(0 < each < 1_000 for each in figures.unavailable_ms)
    assert there.told[-1] == Progress(Stage.SWITCH, done=2, total=2, released=0)
    back = Run(world)
    back.switch.roll_back()
    assert (back.stage, sorted(back.course.figures.moved)) == (Stage.READY, sorted(TOPICS))
    assert {name: served_by(world, name) for name in TOPICS} == {name: ["ewr"] for name in TOPICS}


def test_producers_continue_their_epochs_and_sequence_ids(world: StillWorld) -> None:
    ewr, jfk = world.brokers.values()
    ewr.producer_states[EU] = ProducerState(3, {"p": 9, "q": 4})
    jfk.producer_states[EU] = ProducerState(1, {"r": 1})
    Run(world).switch.switch()
    assert jfk.producer_states[EU] == ProducerState(3, {"p": 9, "q": 4, "r": 1})
    jfk.producer_states[EU] = ProducerState(4, {"p": 12})
    Run(world).switch.roll_back()
    assert ewr.producer_states[EU] == ProducerState(4, {"p": 12, "q": 4})


def test_messages_that_nobody_acknowledges_in_time_are_counted(world: StillWorld) -> None:
    ewr = world.brokers["ewr"]
    for number in (1, 2, 3):
        world.publish(ewr, EU)
        world.deliver(ewr, EU)
        assert len(ewr.of(EU).held) == number
    run = Run(world)
    run.switch.switch()
    assert run.stage is Stage.SWITCHED
    assert run.journal.migration.unacknowledged == {EU: 3, **dict.fromkeys(US, 0)}
    assert max(run.course.figures.unavailable_ms) >= 1_000 * BUDGET.acknowledgements_s


def test_a_topic_that_takes_too_long_is_released_and_tried_again_by_the_next_run(world: StillWorld) -> None:
    world.stuck.add(EU)
    world.publish(world.brokers["ewr"], EU)
    run = Run(world)
    run.switch.switch()
    assert run.stage is Stage.SWITCH
    assert run.switch.released == {EU: f"{EU}: 1 entries are not confirmed by jfk"}
    assert run.journal.migration.released == {EU: f"{EU}: 1 entries are not confirmed by jfk"}
    assert (served_by(world, EU), served_by(world, US[0])) == (["ewr"], ["jfk"])
    world.stuck.clear()
    again = Run(world)
    again.switch.switch()
    assert (again.stage, again.switch.released, again.journal.migration.released) == (Stage.SWITCHED, {}, {})
    assert again.course.figures.moved == [EU]


def test_a_partition_that_takes_too_long_holds_back_the_others(world: StillWorld) -> None:
    world.stuck.add(US[1])
    world.publish(world.brokers["ewr"], US[1])
    run = Run(world)
    run.switch.switch()
    assert [*run.switch.released] == ["persistent://shop/orders/us"]
    assert [served_by(world, name) for name in US] == [["ewr"], ["ewr"]]


def test_clients_leave_all_partitions_of_a_topic_at_the_same_time(world: StillWorld) -> None:
    run = Run(world, handover=Unloading(world))
    run.switch.switch()
    assert (run.stage, run.switch.released) == (Stage.SWITCHED, {})
    assert max(run.course.figures.unavailable_ms) < 2_000 * Unloading.LEAVING_S


def test_a_topic_is_compared_once_when_it_is_complete(world: StillWorld) -> None:
    counted = Counted()
    run = Run(world, handover=counted)
    run.switch.switch()
    assert run.stage is Stage.SWITCHED
    assert counted.complete == dict.fromkeys(TOPICS, 1)


def test_a_topic_whose_ids_cannot_be_translated_is_released(world: StillWorld) -> None:
    run = Run(world, target=Refusing)
    run.switch.switch()
    expected = f"{EU}: message ids of ewr cannot be translated: its ledger ids are too low for ewr"
    assert run.switch.released == {EU: expected}
    assert served_by(world, EU) == ["ewr"]


def test_a_topic_that_another_migration_has_fenced_is_released(world: StillWorld) -> None:
    topic = world.brokers["ewr"].of(EU)
    topic.fence, topic.ends_at = Fence("other", 9, Phase.SETTLING), world.now + 100
    run = Run(world)
    run.switch.switch()
    assert [*run.switch.released] == [EU]
    assert topic.fence is not None
    assert topic.fence.migration == "other"


def test_a_cluster_that_does_not_answer_ends_the_run_and_the_fences(world: StillWorld) -> None:
    run = Run(world, target=Silent)
    with pytest.raises(UnansweredError):
        run.switch.switch()
    world.pass_time(LEASE_S)
    assert served_by(world, EU) == ["ewr"]


def test_a_part_that_is_routed_elsewhere_is_not_switched(world: StillWorld) -> None:
    world.brokers["jfk"].route["shop/orders"] = ("lga", 1)
    with pytest.raises(MigrationError, match="the route of shop/orders leads to lga, not to ewr\nhint: delete it"):
        Run(world).switch.switch()
    world.brokers["jfk"].route.clear()
    world.brokers["jfk"].route["other/orders"] = ("lga", 1)
    run = Run(world)
    run.switch.switch()
    assert run.stage is Stage.SWITCHED
    assert world.brokers["jfk"].route["other/orders"] == ("lga", 1)


def test_some_topics_can_be_switched_before_the_others(world: StillWorld) -> None:
    Run(world, only=(EU,)).switch.switch()
    assert [served_by(world, name) for name in TOPICS] == [["jfk"], ["ewr"], ["ewr"]]
    assert Run(world).stage is Stage.SWITCH
    Run(world).switch.switch()
    assert Run(world).stage is Stage.SWITCHED


def test_only_what_was_verified_is_switched(world: StillWorld) -> None:
    world.records.pop()
    with pytest.raises(MigrationStateError, match="was not verified"):
        Run(world).switch.switch()


class Stopping(VirtualClock):
    """The operator ends the command when the first topic is fenced."""

    def wait(self, seconds: float) -> bool:
        super().wait(seconds)
        return any(topic.fence for broker in self.world.brokers.values() for topic in broker.topics.values())


def test_an_interrupted_run_releases_what_it_can(world: StillWorld) -> None:
    run = Run(world, drive=Threads(Stopping(world)))
    with pytest.raises(InterruptedMigrationError):
        run.switch.switch()
    assert [served_by(world, name) for name in TOPICS] == [["ewr"]] * len(TOPICS)
    again = Run(world, drive=Threads(VirtualClock(world)))
    again.switch.switch()
    assert again.stage is Stage.SWITCHED


def test_a_topic_that_only_goes_forward_is_not_released(world: StillWorld) -> None:
    run = Run(world)
    run.switch.switch()
    world.records = world.records[
        : 1 + next(index for index, each in enumerate(world.records) if each == TopicsMoved(TopicEvent.SEALED, (EU,)))
    ]
    again = Run(world, drive=Threads(Stopping(world)))
    state = again.journal.migration.topics[EU]
    assert state is FORWARD.sealed
    with pytest.raises(InterruptedMigrationError):
        again.switch.switch()
    assert again.journal.migration.topics[EU] is FORWARD.sealed
    assert served_by(world, EU) != ["ewr"]


def test_a_virtual_broker_accepts_the_phases_in_their_order_only() -> None:
    world = StillWorld()
    broker = world.brokers["ewr"]
    for phase in (Phase.CLOSED, Phase.FINAL):
        with pytest.raises(FenceRefusedError):
            broker.set_fence(EU, 1, phase)
    broker.set_fence(EU, 1, Phase.SETTLING)
    with pytest.raises(FenceRefusedError):
        broker.set_fence(EU, 1, Phase.FINAL)
    broker.set_fence(EU, 1, Phase.CLOSED)
    broker.set_fence(EU, 2, Phase.SETTLING)
    with pytest.raises(FenceRefusedError):
        broker.remove_fence(EU, 1, final=False)
    assert isinstance(broker.of(EU), Topic)
