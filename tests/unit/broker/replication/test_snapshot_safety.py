"""With losses, delays and reordering, no snapshot acknowledges an unconsumed message (PIP-33)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magnetar.base.errors import RequestError
from magnetar.base.position import Position
from magnetar.geo.snapshots.controller import Ask, Completed, SnapshotController, SnapshotOptions
from magnetar.geo.snapshots.markers import SnapshotResponse
from magnetar.wire import commands
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.broker.mesh import MARKERS, Mesh

if TYPE_CHECKING:
    from magnetar.sim.pipe import Pipe

NAMES = ("ewr", "jfk", "lga")
STEPS_MAX = 60

clusters = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.just("publish"), clusters),
    st.tuples(st.just("consume"), clusters, st.integers(0, 20)),
    st.tuples(st.just("consume all"), clusters),
    st.tuples(st.just("subscribe at the latest"), clusters),
    st.tuples(st.sampled_from(["read", "send one", "send", "confirm", "lose"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["read", "send one", "send", "confirm"]), st.integers(0, 5)),
    st.tuples(st.just("carry"), st.integers(0, 5)),
    st.tuples(st.just("attach"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([0.02, 1.0, 31.0])),
)


class SnapshotScenario:
    """Clusters with their links and consumed messages."""

    def __init__(self, names: tuple[str, ...], settings: dict[str, str]) -> None:
        self.mesh = Mesh(*names, settings=settings, permits=2)
        self.names = names
        self.links = list(self.mesh.pipes.values())
        self.consumed: set[str] = set()
        self.before_start: dict[str, set[str]] = {"ewr": set()}
        """By cluster, the messages before the start of a subscription that a consumer created."""
        self.published = 0
        self.mesh.publish("ewr", "first")
        self.mesh.subscribe("ewr", permits=0)

    def step(self, kind: str, which: float, number: int = 0) -> None:
        name, link = self.names[int(which) % len(self.names)], self.links[int(which) % len(self.links)]
        match kind:
            case "publish":
                self.published += 1
                self.mesh.publish(name, f"m{self.published}")
            case "consume":
                self.consume(name, number, 1)
            case "consume all":
                self.consume(name, 0, 1000)
            case "subscribe at the latest":
                self.subscribe_at_the_latest(name)
            case "wait":
                self.mesh.loop.advance(which)
                for cluster in self.mesh.clusters.values():
                    cluster.settle()
            case _:
                move(kind, link)

    def consume(self, name: str, first: int, count: int) -> None:
        """Acknowledge some of the subscription's unacknowledged messages, if it exists."""
        subscription = self.mesh.clusters[name].topic().subscriptions.get("worker")
        if subscription is None:
            return
        left = {p: text for p, text in self.mesh.texts(name).items() if not subscription.unread.is_finished(p)}
        chosen = list(left)[first : first + count]
        if chosen:
            self.consumed |= {left[position] for position in chosen}
            client = self.mesh.clusters[name].client()
            client.subscribe(permits=0)
            ids = [message_id(position) for position in chosen]
            client.say(commands.ack(consumer_id=1, message_ids=ids))
            client.leave()

    def subscribe_at_the_latest(self, name: str) -> None:
        """Create the subscription at the end of a cluster's log, unless it exists."""
        if "worker" in self.mesh.clusters[name].topic().subscriptions:
            return
        self.before_start[name] = set(self.mesh.texts(name).values())
        client = self.mesh.clusters[name].client()
        client.subscribe(replicate_subscription_state=True, permits=0, initialPosition=pb.CommandSubscribe.Latest)
        client.leave()

    def check(self) -> None:
        anywhere: set[str] = set().union(*self.before_start.values())
        for name in self.names:
            # A subscription created by an update has the start of the other cluster.
            not_wanted = self.before_start.get(name, anywhere)
            skipped = self.mesh.acknowledged(name) - self.consumed - not_wanted
            assert not skipped, f"{name} skips {skipped}"


def move(kind: str, link: Pipe) -> None:
    match kind:
        case "read":
            link.read()
        case "send one":
            link.send(1)
        case "send":
            link.send(100)
        case "confirm":
            link.confirm()
        case "carry":
            link.read()
            link.run()
        case "lose":
            del link.carried[:1]
        case "attach":  # entries in flight are lost
            link.attach(permits=2)


def leaving_out(seconds: float) -> dict[str, Any]:
    return {**MARKERS, "replicatedSubscriptionsSnapshotWithoutClusterAfterSeconds": seconds}


def play(names: tuple[str, ...], moves: list[tuple[str, float] | tuple[str, float, int]]) -> None:
    scenario = SnapshotScenario(names, MARKERS)
    for each in moves:
        scenario.step(*each)
        scenario.check()
    for pipe in scenario.links:
        pipe.attach(permits=20)
    scenario.mesh.loop.advance(31.0)
    scenario.mesh.carry()
    for name in names:
        if "worker" in scenario.mesh.clusters[name].topic().subscriptions:
            scenario.consume(name, 0, 1000)
    for _ in range(4):
        scenario.mesh.second()
    scenario.check()
    assert scenario.mesh.problems() == []
    everything = set(scenario.mesh.texts("ewr").values())
    for name in names:
        assert set(scenario.mesh.texts(name).values()) == everything
        assert scenario.mesh.acknowledged(name) == everything, f"{name} has not heard of all"


LATER_THAN_THE_ANSWER: list[tuple[str, float] | tuple[str, float, int]] = [
    ("publish", 1),
    ("publish", 2),
    ("carry", 2),
    ("carry", 4),
]
"""Messages of lga are in ewr before its first snapshot, and arrive in jfk after its answer."""


LATEST_BESIDE_A_BACKLOG: list[tuple[str, float] | tuple[str, float, int]] = [
    ("carry", 0),
    ("subscribe at the latest", 1),
    ("publish", 1),
    ("carry", 0),
    ("carry", 2),
    ("wait", 1.0),
    *[("carry", link) for link in range(6)] * 3,
    ("consume all", 1),
    ("wait", 1.0),
    *[("carry", link) for link in range(6)] * 3,
]
"""The subscription of jfk starts after an entry in the backlog of the subscription in ewr."""


@settings(max_examples=40, deadline=None)
@given(st.lists(steps, max_size=STEPS_MAX))
@example(LATER_THAN_THE_ANSWER)
@example(LATEST_BESIDE_A_BACKLOG)
def test_three_clusters(moves: list[tuple[str, float] | tuple[str, float, int]]) -> None:
    play(NAMES, moves)


@settings(max_examples=25, deadline=None)
@given(st.lists(steps, max_size=STEPS_MAX))
def test_two_clusters(moves: list[tuple[str, float] | tuple[str, float, int]]) -> None:
    play(NAMES[:2], moves)


def test_a_second_round_waits_for_what_two_others_have_exchanged() -> None:
    """Without it, the snapshot of ewr would cover a message of lga that jfk has and ewr has not."""
    scenario = SnapshotScenario(NAMES, MARKERS)
    mesh = scenario.mesh
    links = {(source, target): partial(move, "carry", pipe) for (source, target), pipe in mesh.pipes.items()}
    mesh.carry()
    mesh.second()  # the subscription is in all clusters
    mesh.publish("ewr", "something new")
    scenario.step("wait", 2.0)
    links["ewr", "lga"]()
    links["lga", "ewr"]()  # lga has answered,
    mesh.publish("lga", "late")  # publishes then,
    links["lga", "jfk"]()
    links["ewr", "jfk"]()
    links["jfk", "ewr"]()  # and jfk answers with that in its log.
    scenario.consume("ewr", 0, 1000)
    scenario.step("wait", 0.1)
    links["ewr", "jfk"]()
    assert "late" in mesh.texts("jfk").values()
    assert "late" not in mesh.texts("ewr").values()
    scenario.check()


def test_an_answer_comes_behind_what_it_speaks_of() -> None:
    scenario = SnapshotScenario(NAMES[:2], MARKERS)
    mesh = scenario.mesh
    mesh.carry()
    back = mesh.pipes["jfk", "ewr"]
    back.attach(permits=1)
    mesh.publish("jfk", "one", "two", "three")
    mesh.publish("ewr", "something new")
    scenario.step("wait", 2.0)
    move("carry", mesh.pipes["ewr", "jfk"])  # jfk answers: it has come to the third
    for text in ("one", "two", "three"):
        back.read()
        back.send(1)
        assert text in mesh.texts("ewr").values()
        scenario.consume("ewr", 0, 1000)
        scenario.step("wait", 0.1)
        move("carry", mesh.pipes["ewr", "jfk"])
        scenario.check()
        back.confirm()


def test_an_answer_that_comes_without_what_it_speaks_of_is_refused() -> None:
    scenario = SnapshotScenario(NAMES[:2], MARKERS)
    mesh = scenario.mesh
    mesh.publish("jfk", "held")
    mesh.carry()
    mesh.second()
    back = mesh.pipes["jfk", "ewr"]
    mesh.publish("jfk", "lost on the way")
    mesh.publish("ewr", "consumed")
    scenario.step("wait", 2.0)
    move("carry", mesh.pipes["ewr", "jfk"])
    back.read()
    move("lose", back)
    back.send(100)
    scenario.consume("ewr", 0, 1000)
    scenario.step("wait", 0.1)
    move("carry", mesh.pipes["ewr", "jfk"])
    scenario.check()
    back.confirm()
    assert back.gaps == 1
    back.run()
    assert "lost on the way" in mesh.texts("ewr").values()


# -- absent clusters ---------------------------------------------------------------------------------------------


def gone(mesh: Mesh, name: str) -> None:
    """Disconnect a cluster; entries in flight to and from it are lost."""
    for link in [each for each in mesh.pipes if name in each]:
        pipe = mesh.pipes.pop(link)
        pipe.reader.leave()
        pipe.writer.leave()


def test_subscriptions_move_on_without_a_cluster_that_has_been_away_for_long() -> None:
    scenario = SnapshotScenario(NAMES, leaving_out(10.0))
    mesh = scenario.mesh
    mesh.carry()
    mesh.second()
    gone(mesh, "lga")
    mesh.publish("ewr", "a")
    mesh.carry()
    scenario.consume("ewr", 0, 1000)
    for _ in range(8):
        mesh.second()
    assert mesh.acknowledged("jfk") < set(mesh.texts("jfk").values()), "it may be back any moment"
    for _ in range(4):
        mesh.second()
    assert mesh.acknowledged("jfk") == {"first", "a"}


def test_nothing_is_taken_from_one_that_holds_more_of_who_is_away() -> None:
    """Messages that lga has sent to jfk, and never to ewr, are unconsumed."""
    scenario = SnapshotScenario(NAMES, leaving_out(5.0))
    mesh = scenario.mesh
    mesh.carry()
    mesh.publish("lga", "everywhere")
    mesh.carry()
    mesh.publish("lga", "only in jfk")
    move("carry", mesh.pipes["lga", "jfk"])
    back = mesh.pipes["lga", "ewr"]
    gone(mesh, "lga")
    mesh.publish("ewr", "after it")
    mesh.carry()
    for _ in range(8):
        mesh.second()
        scenario.consume("ewr", 0, 1000)
    scenario.check()
    assert mesh.acknowledged("jfk") == {"first", "everywhere"}, "up to what ewr lacks, and no further"
    mesh.pipes["lga", "ewr"] = back
    back.attach(permits=10)
    mesh.carry()
    scenario.consume("ewr", 0, 1000)
    for _ in range(3):
        mesh.second()
    assert mesh.acknowledged("jfk") == set(mesh.texts("jfk").values())


@settings(max_examples=30, deadline=None)
@given(st.lists(steps, max_size=STEPS_MAX), st.lists(steps, max_size=STEPS_MAX))
def test_no_message_is_skipped_without_any_cluster(
    before: list[tuple[str, float] | tuple[str, float, int]], after: list[tuple[str, float] | tuple[str, float, int]]
) -> None:
    scenario = SnapshotScenario(NAMES, leaving_out(1.0))
    for each in before:
        scenario.step(*each)
        scenario.check()
    gone(scenario.mesh, "lga")
    scenario.links = list(scenario.mesh.pipes.values())
    for each in after:
        scenario.step(*each)
        scenario.check()
    assert scenario.mesh.problems() == []


def test_an_answer_that_does_not_know_who_is_left_out_is_worth_nothing() -> None:
    """As an answer of Apache Pulsar, which ignores unknown fields."""
    controller = SnapshotController(SnapshotOptions(30.0), lambda: "s")
    (ask,) = controller.begin(0.0, ["jfk"], ["lga"])
    assert ask == Ask("s", ("jfk",), ("lga",))
    end = Position(3, 5)
    assert controller.answered(SnapshotResponse("s", "jfk", end), 1.0, end) == []
    answer = SnapshotResponse("s", "jfk", end, frozenset({"lga"}))
    assert [type(effect) for effect in controller.answered(answer, 1.0, end)] == [Completed]


def test_a_snapshot_may_be_asked_for_by_hand() -> None:
    scenario = SnapshotScenario(NAMES, MARKERS)
    mesh = scenario.mesh
    mesh.carry()
    gone(mesh, "lga")
    scenario.consume("ewr", 0, 1000)
    snapshots = mesh.clusters["ewr"].topic().snapshots
    assert snapshots is not None
    with pytest.raises(RequestError, match="the link to lga has no holder"):
        snapshots.begin([])
    with pytest.raises(RequestError, match="no cluster remains"):
        snapshots.begin(["jfk", "lga"])
    mesh.clusters["ewr"].do(lambda: snapshots.begin(["lga"]))
    mesh.carry()
    mesh.second()
    assert mesh.acknowledged("jfk") == {"first"}
