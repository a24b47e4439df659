"""A topic of a fake Apache Pulsar on its way to a fake cluster of Magnetar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.names import NamespaceName, TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.migration.pulsar.pause import CONFIRMED_S, PAUSED, QUIET_S, DispatchPause
from magnetar.migration.pulsar.source import LATE_S, PulsarSource, Wires
from magnetar.migration.scope import Scope
from magnetar.migration.sides import source_of, target_of
from magnetar.migration.switching.admin_cluster import AdminCluster
from magnetar.migration.switching.cluster import ProducerState
from magnetar.migration.switching.fence import Phase, TopicState
from tests.unit.admin.fake_clusters import MagnetarTransport
from tests.unit.admin.fake_service import FakeAdminService, FakeSubscription, new_service
from tests.unit.migration.pulsar.fake_pulsar import CLIENT, EU, Carrier, LogReader, Pulsar
from tests.unit.migration.still_clock import StillClock

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = NamespaceName("shop", "orders")

DISPATCHED = {"billing": 9}


class Clock(StillClock):
    """A clock that is set by hand."""

    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> bool:
        self.seconds += seconds
        return False


@dataclass
class Move:
    pulsar: Pulsar
    carrier: Carrier
    clock: Clock
    service: FakeAdminService
    there: AdminClient
    source: PulsarSource
    target: AdminCluster
    reader: LogReader
    another_source: Callable[[], PulsarSource]

    def missing(self) -> str:
        def look(*, digests: bool = False) -> TopicState:
            return self.source.look(str(EU), digests=digests)

        return self.source.missing(str(EU), self.target, look)

    def close(self, epoch: int = 1) -> None:
        for phase in (Phase.SETTLING, Phase.CLOSED):
            self.source.fence(str(EU), epoch, phase)

    def close_after_pause(self) -> None:
        """Close the topic when it is known what consumers hold."""
        for _ in range(2):
            self.source.fence(str(EU), 1, Phase.SETTLING)
            self.clock.seconds += QUIET_S
        self.source.fence(str(EU), 1, Phase.CLOSED)


@pytest.fixture
def move() -> Move:
    service = new_service()
    pulsar, carrier, clock, reader = Pulsar(), Carrier(), Clock(), LogReader()
    here = AdminClient("http://legacy:8080", transport=pulsar)
    there = AdminClient("http://ewr:8080", transport=MagnetarTransport(service))
    there.clusters.create("legacy", {"serviceUrl": "http://legacy:8080"})
    there.tenants.create("shop", ["A"])
    there.namespaces.create(ORDERS, ["A"])
    there.topics.create(EU)
    service.topics.held[EU].subscriptions["billing"] = FakeSubscription(EARLIEST)
    sides = source_of(here), target_of(there)
    clusters = [
        AdminCluster(side, name, Scope("shop"), [str(ORDERS)], "m")
        for side, name in zip(sides, ("legacy", "A"), strict=True)
    ]

    def new_source() -> PulsarSource:
        return PulsarSource(sides[0], clusters[0], sides[1], clusters[1], Wires(carrier, reader), clock)

    return Move(pulsar, carrier, clock, service, there, new_source(), clusters[1], reader, new_source)


def test_clients_stay_until_the_fence_is_closed(move: Move) -> None:
    found = move.source.fence(str(EU), 1, Phase.SETTLING)
    assert found.fence is not None
    assert found.fence.phase is Phase.SETTLING
    assert {name: each.is_replicated for name, each in found.subscriptions.items()} == {"billing": True}
    assert move.target.routes() == {}
    closed = move.source.fence(str(EU), 1, Phase.CLOSED)
    assert closed.fence is not None
    assert closed.fence.phase is Phase.CLOSED
    fence = move.target.look(str(EU)).fence
    assert fence is not None
    assert fence.phase is Phase.FINAL
    assert move.target.routes() == {str(EU): "A"}
    move.source.fence(str(EU), 1, Phase.CLOSED)  # renewed
    move.source.fence(str(EU), 1, Phase.FINAL)


def test_sequence_ids_are_those_of_the_last_snapshot(move: Move) -> None:
    assert move.source.producer_state(str(EU)) == ProducerState()
    move.pulsar.sequence_ids, move.pulsar.topic_epoch = {"p": 7}, 2
    assert move.source.producer_state(str(EU)) == ProducerState(2, {"p": 7})
    move.source.add_producer_state(str(EU), ProducerState(3, {"p": 9}))
    assert move.source.producer_state(str(EU)) == ProducerState(2, {"p": 7}), "Apache Pulsar takes none"


def test_consumers_acknowledge_what_they_hold_before_they_are_sent_away(move: Move) -> None:
    move.pulsar.consumers, move.pulsar.held = [CLIENT], 4
    assert move.source.fence(str(EU), 1, Phase.SETTLING).unacknowledged is None, "the rate has no effect yet"
    assert move.pulsar.rate == PAUSED
    move.clock.seconds += QUIET_S
    assert move.source.fence(str(EU), 1, Phase.SETTLING).unacknowledged == 4
    assert move.source.look(str(EU)).unacknowledged == 4
    move.source.fence(str(EU), 1, Phase.CLOSED)
    assert move.missing().startswith("1 clients are connected")
    assert move.missing() == ""
    assert move.pulsar.rate == PAUSED, "clients do not wait for its removal"
    move.source.set_route("shop", "A")
    assert move.pulsar.rate == PAUSED, "the route of a tenant says nothing about a topic"
    move.source.set_route(str(EU), "A")
    assert move.pulsar.rate is None, "as before"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_partitions_go_on_when_all_have_left(move: Move, *, is_restarted: bool) -> None:
    us = TopicName.parse("persistent://shop/orders/us")
    move.there.topics.create_partitioned(us, 2)
    move.pulsar.consumers, move.pulsar.partitions = [CLIENT], 2
    for index in range(2):
        move.source.fence(str(us.partition(index)), 1, Phase.SETTLING)
    assert move.pulsar.rate == PAUSED
    if is_restarted:
        move.source = move.another_source()
    move.source.set_route(str(us), "A")
    assert move.pulsar.rate is None


def test_a_message_that_was_dispatched_late_can_be_acknowledged(move: Move) -> None:
    move.pulsar.consumers, move.pulsar.held = [CLIENT], 4
    move.close_after_pause()
    move.pulsar.held = 5
    assert move.missing() == "consumers hold 1 messages that were dispatched late"
    assert move.pulsar.unloads == 0
    move.pulsar.held = 4
    assert move.missing().startswith("1 clients are connected")
    assert move.pulsar.unloads == 1


def test_a_message_that_was_dispatched_late_delays_the_move_for_a_while_only(move: Move) -> None:
    move.pulsar.consumers = [CLIENT]
    move.close_after_pause()
    move.pulsar.held = 1
    assert move.missing() == "consumers hold 1 messages that were dispatched late"
    move.clock.seconds += LATE_S
    assert move.missing().startswith("1 clients are connected")


def test_the_dispatch_of_a_busy_broker_ends_later(move: Move) -> None:
    move.pulsar.consumers = [CLIENT]
    move.source.fence(str(EU), 1, Phase.SETTLING)
    for _ in range(3):
        move.pulsar.dispatched += 1
        move.clock.seconds += QUIET_S
        assert move.source.look(str(EU)).unacknowledged is None
    move.clock.seconds += QUIET_S
    assert move.source.look(str(EU)).unacknowledged == 0


def test_a_topic_without_consumers_has_none_to_wait_for(move: Move) -> None:
    assert move.source.fence(str(EU), 1, Phase.SETTLING).unacknowledged == 0


def test_partitions_are_paused_with_their_topic_until_the_last_one_ends(move: Move) -> None:
    pause = DispatchPause(source_of(AdminClient("http://legacy:8080", transport=move.pulsar)), move.clock)
    partitions = [str(EU.partition(index)) for index in range(2)]
    for each in partitions:
        pause.begin(each, ["billing"])
        assert move.pulsar.rate == PAUSED
        assert not pause.is_effective(each, DISPATCHED)
    move.clock.seconds += QUIET_S
    assert all(pause.is_effective(each, DISPATCHED) for each in partitions)
    for _ in range(2):  # a step that is repeated
        pause.end(partitions[0], ["billing"])
        assert move.pulsar.rate == PAUSED
    pause.end(partitions[1], ["billing"])
    assert move.pulsar.rate is None


@pytest.mark.parametrize("is_set", [True, False], ids=["another rate", "no policies"])
def test_a_subscription_that_cannot_be_paused_goes_on(move: Move, *, is_set: bool) -> None:
    rate = {"dispatchThrottlingRateInMsg": 100, "ratePeriodInSecond": 1} if is_set else None
    move.pulsar.consumers = [CLIENT]
    move.pulsar.rate, move.pulsar.has_policies = rate, is_set
    move.close()
    move.source.remove_fence(str(EU), 1)
    assert move.pulsar.rate == rate


@pytest.mark.parametrize("looks", [3, 1_000], ids=["a moment later", "not in time"])
def test_the_broker_must_know_the_rate(move: Move, looks: int) -> None:
    move.pulsar.consumers, move.pulsar.rate_is_known_after = [CLIENT], looks
    began = move.clock.seconds
    assert move.source.fence(str(EU), 1, Phase.SETTLING).unacknowledged is None
    assert move.clock.seconds - began < CONFIRMED_S + 0.1
    move.clock.seconds += QUIET_S
    is_known = move.source.look(str(EU)).unacknowledged is not None
    assert is_known == (looks == 3)


def test_it_is_unknown_what_a_consumer_holds_that_acknowledges_cumulatively(move: Move) -> None:
    move.pulsar.kind = "Failover"
    assert move.source.look(str(EU)).unacknowledged is None, "it is not paused"
    move.source.fence(str(EU), 1, Phase.SETTLING)
    assert move.pulsar.rate is None, "without consumers, there is nothing to pause"
    assert move.source.look(str(EU)).unacknowledged == 0, "it has no consumer"
    move.pulsar.consumers = [CLIENT]
    assert move.source.look(str(EU)).unacknowledged is None


def test_a_released_topic_leads_to_apache_pulsar_again(move: Move) -> None:
    move.close()
    move.source.remove_fence(str(EU), 1)
    assert move.pulsar.rate is None
    assert move.target.routes() == {str(EU): "legacy"}
    assert move.target.look(str(EU)).fence is None


def test_acknowledgements_are_sent_when_clients_are_gone_and_the_link_has_no_backlog(move: Move) -> None:
    move.pulsar.publishers = [{"producerName": "shop-1", **CLIENT}]
    move.pulsar.consumers, move.pulsar.backlog = [CLIENT], 2
    move.close()
    assert move.missing() == "2 clients are connected to legacy: 10.0.0.9:4242, 10.0.0.9:4242"
    assert move.pulsar.unloads == 1
    assert move.missing() == "2 entries are not confirmed by A"
    assert move.carrier.sent == []


def test_a_client_that_returns_is_sent_away_once_a_second(move: Move) -> None:
    move.pulsar.consumers, move.pulsar.stays = [CLIENT], True
    move.close()
    for move.clock.seconds in (100.0, 100.5, 101.0):
        assert move.missing() == "1 clients are connected to legacy: 10.0.0.9:4242"
    assert move.pulsar.unloads == 2


@pytest.mark.parametrize(
    ("marks", "refusal", "reason"),
    [
        (["5:0"], "", ""),
        (["5:1"], "", "billing: 2 entries are unacknowledged, and 3 in the target"),
        (["5:-1"], "", "billing: 4 entries are unacknowledged, and 3 in the target"),
        (["5:0", "5:1"], "", "an acknowledgement state has changed"),
        (["5:0"], "it is not there", "it is not there"),
    ],
    ids=["equal", "more in the target", "fewer in the target", "changed", "not sent"],
)
def test_states_are_compared(move: Move, marks: list[str], refusal: str, reason: str) -> None:
    move.service.topics.held[EU].entries = [b"entry"] * 3
    move.pulsar.marks, move.carrier.refusal = marks, refusal
    move.close()
    assert move.missing() == reason
    assert [state.name for state in move.carrier.sent] == ["billing"]


def test_a_message_that_the_target_does_not_get_keeps_its_topic(move: Move) -> None:
    move.pulsar.marks, move.reader.only_to = ["5:0"], "B"
    move.close()
    reason = "billing: 2 unacknowledged messages are not for A, the first one at 5:1"
    assert move.missing() == reason
    assert move.carrier.sent == []


def test_a_return_leaves_the_fence_of_the_target(move: Move) -> None:
    there = move.target
    for phase in (Phase.SETTLING, Phase.CLOSED, Phase.FINAL):
        there.fence(str(EU), 2, phase)
    move.pulsar.rate = PAUSED
    move.source.remove_fence(str(EU), 2, final=True)
    assert move.pulsar.rate is None
    fence = there.look(str(EU)).fence
    assert fence is not None
    assert (fence.epoch, fence.phase) == (2, Phase.FINAL)


def test_a_topic_that_has_returned_can_be_switched_again(move: Move) -> None:
    for phase in (Phase.SETTLING, Phase.CLOSED, Phase.FINAL):
        move.target.fence(str(EU), 2, phase)
    move.pulsar.marks = ["5:0"]
    move.source.prepare(str(EU), move.target)
    move.close(3)
    fence = move.target.look(str(EU)).fence
    assert fence is not None
    assert fence.epoch == 3
    move.pulsar.marks = ["5:1"]
    move.service.topics.held[EU].entries = [b"entry"] * 2
    assert move.missing() == ""
    (state,) = move.carrier.sent
    assert list(state.origin("legacy").acknowledged) == [(EARLIEST, Position(5, 1))]
    assert list(state.origin("A").acknowledged) == [(EARLIEST, Position(100, 0))], "the entry of A at 5:1"


def test_a_log_that_cannot_be_read_delays_the_move(move: Move) -> None:
    move.close(2)
    move.reader.refusal = "the log cannot be read"
    assert move.missing() == "the log cannot be read"
    assert move.carrier.sent == []


def test_a_subscription_that_goes_back_before_the_log_is_read_from_there(move: Move) -> None:
    move.pulsar.marks = ["5:3"]
    move.source.prepare(str(EU), move.target)
    move.close(2)
    move.pulsar.marks = ["5:0"]
    move.service.topics.held[EU].entries = [b"entry"] * 3
    assert move.missing() == ""
    assert [log.start for log in move.reader.logs] == [Position(5, 3), Position(5, 0)]
