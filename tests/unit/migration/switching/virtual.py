"""Two virtual brokers with clients, links and progress, and a migrator that crashes at random."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import Record, Routed, from_json, to_json
from magnetar.migration.sides import UnansweredError, source_of
from magnetar.migration.switching.cluster import FenceRefusedError, ProducerState
from magnetar.migration.switching.fence import Fence, Link, Phase, Subscription, TopicState
from magnetar.migration.switching.topic_move import LEASE_S

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from magnetar.base.names import TopicName
    from magnetar.migration.switching.cluster import Cluster
    from magnetar.migration.switching.topic_move import TopicMove

TENANT = "shop"
LATE_S = 3.0
"""A request of a process that was killed takes effect within so many seconds, or never."""
STOPPED = 5
"""The fault that stops the migrator before a request, and continues it when a lease is over."""
SIDE = source_of(AdminClient("http://ewr:8080"))
"""The side of requests without an answer."""
_STEPS = {
    Phase.SETTLING: (Phase.SETTLING,),
    Phase.CLOSED: (Phase.SETTLING, Phase.CLOSED),
    Phase.FINAL: (Phase.CLOSED, Phase.FINAL),
}
"""By phase: those after which it is accepted."""


Message = tuple[str, int]


class CrashError(Exception):
    """The migrator is killed."""


@dataclass
class Topic:
    """A topic in one cluster. A message is the cluster that published it, and its number."""

    own: list[Message] = field(default_factory=list)
    """The messages that were published here."""
    carried: int = 0
    """Messages of ``own`` that the other cluster has."""
    numbers: Counter[int] = field(default_factory=Counter)
    left: dict[Message, None] = field(default_factory=dict)
    """The messages that are not acknowledged, in the order of the log."""
    acknowledged: set[Message] = field(default_factory=set)
    made_here: list[Message] = field(default_factory=list)
    """The acknowledgements of clients here."""
    confirmed: int = 0
    """Acknowledgements of ``made_here`` that the other cluster has."""
    held: list[Message] = field(default_factory=list)
    """Messages that consumers have not acknowledged."""
    fence: Fence | None = None
    ends_at: float = 0.0

    def store(self, message: Message) -> None:
        self.numbers[message[1]] += 1
        if message not in self.acknowledged:
            self.left[message] = None

    def acknowledge(self, message: Message) -> None:
        self.acknowledged.add(message)
        self.left.pop(message, None)


@dataclass
class Broker:
    """One cluster."""

    world: World
    name: str
    topics: dict[str, Topic] = field(default_factory=dict)
    producer_states: dict[str, ProducerState] = field(default_factory=dict)
    route: dict[str, tuple[str | None, int]] = field(default_factory=dict)
    """Cluster and epoch by scope; no cluster: deleted."""

    @property
    def other(self) -> Broker:
        return next(each for each in self.world.brokers.values() if each is not self)

    def of(self, name: str) -> Topic:
        """Return a topic; an empty one if it does not exist."""
        return self.topics.get(name) or Topic()

    def create(self, name: str) -> None:
        self.topics.setdefault(name, Topic())

    def add_producer_state(self, name: str, added: ProducerState) -> None:
        known = self.producer_states.get(name, ProducerState())
        epochs = [each for each in (known.topic_epoch, added.topic_epoch) if each is not None]
        sequence_ids = {**known.sequence_ids, **added.sequence_ids}
        self.producer_states[name] = ProducerState(max(epochs, default=None), sequence_ids)

    def expire(self) -> None:
        for topic in self.topics.values():
            fence = topic.fence
            if fence is not None and fence.phase is not Phase.FINAL and self.world.now >= topic.ends_at:
                topic.fence = None

    def serves(self, name: str) -> bool:
        """Return whether clients can publish and consume."""
        scopes = (name.partition("-partition-")[0], TENANT)
        found = [self.route[scope][0] for scope in scopes if self.route.get(scope, (None, 0))[0] is not None]
        return (not found or found[0] == self.name) and self.of(name).fence is None

    # --- requests ----------------------------------------------------------------------------------------------------

    def set_fence(self, name: str, epoch: int, phase: Phase) -> None:
        self.expire()
        topic, new = self.topics.setdefault(name, Topic()), Fence("m", epoch, phase)
        known = topic.fence
        if known is None:
            is_possible = phase is Phase.SETTLING
        elif epoch > known.epoch:
            is_possible = phase is Phase.SETTLING and known.phase is not Phase.FINAL
        else:
            is_possible = epoch == known.epoch and known.phase in _STEPS[phase]
        if not is_possible:
            message = f"{phase} after {known}"
            raise FenceRefusedError(message)
        if phase is not Phase.SETTLING:
            topic.held.clear()
        topic.fence, topic.ends_at = new, self.world.now + LEASE_S

    def remove_fence(self, name: str, epoch: int, *, final: bool) -> None:
        self.expire()
        topic = self.of(name)
        known = topic.fence
        if known is None:
            return
        if epoch < known.epoch or (known.phase is Phase.FINAL and not final):
            message = f"removal {epoch} of {known}"
            raise FenceRefusedError(message)
        if known.phase is Phase.FINAL:
            beyond = self.other.of(name).fence
            assert beyond is not None, "the other cluster may serve clients"
            assert beyond.phase is Phase.FINAL, "the other cluster may serve clients"
        topic.fence = None

    def change_route(self, scope: str, cluster: str | None, epoch: int) -> None:
        _, known_epoch = self.route.get(scope, (None, 0))
        if epoch == known_epoch:  # otherwise it was changed meanwhile
            self.route[scope] = (cluster, known_epoch + 1)

    def state(self, name: str) -> TopicState:
        self.expire()
        topic = self.of(name)
        unconfirmed = len(topic.made_here) - topic.confirmed
        subscription = Subscription(
            unacknowledged=len(topic.held),
            digest=str(sorted(topic.left)),
            unconfirmed={self.other.name: unconfirmed},
            age_s={self.other.name: float(unconfirmed)},
        )
        link = Link(len(topic.own) - topic.carried)
        return TopicState(topic.fence, {"billing": subscription}, {self.other.name: link})


class World:
    """Everything but the migrator."""

    def __init__(self, chance: random.Random, topics: Sequence[str], faults: int) -> None:
        self.chance = chance
        self.now = 1000.0
        self.faults = faults
        """Crashes and lost answers that are still to come."""
        self.brokers = {name: Broker(self, name) for name in ("ewr", "jfk")}
        for name in topics:
            for broker in self.brokers.values():
                broker.topics[name] = Topic()
        self.records: list[Record] = []
        self.late: list[tuple[float, Callable[[], None]]] = []
        self.published: dict[str, int] = defaultdict(int)
        self.delivered: dict[str, int] = defaultdict(int)
        """By topic: the number of the newest message that was delivered."""
        self.acknowledged: set[tuple[str, int]] = set()
        self.may_create = True

    @property
    def is_held(self) -> bool:
        """Whether a route sends all clients to the source, before the first topic moves."""
        return any(isinstance(each, Routed) for each in self.records)

    def pass_time(self, seconds: float) -> None:
        """Let clients, links and delayed requests act."""
        for _ in range(self.chance.randrange(6)):
            self.act()
        self.now += seconds
        for broker in self.brokers.values():
            broker.expire()
        self.check()

    def check(self) -> None:
        for name in self.names() if self.is_held else ():
            serving = [broker.name for broker in self.brokers.values() if broker.serves(name)]
            assert len(serving) <= 1, f"both clusters serve {name}"

    def names(self) -> list[str]:
        return sorted({name for broker in self.brokers.values() for name in broker.topics})

    def act(self) -> None:
        """Let one client, link or request act."""
        broker = self.chance.choice([*self.brokers.values()])
        name = self.chance.choice(self.names())
        match self.chance.randrange(10):
            case 0 | 1:
                self.publish(broker, name)
            case 2:
                self.deliver(broker, name)
            case 3:
                self.acknowledge(broker, name)
            case 4 | 5:
                self.carry(broker, name)
            case 6:
                self.confirm(broker, name)
            case _:
                self.surprise(broker)
        self.check()

    def surprise(self, broker: Broker) -> None:
        """Restart a broker, create a topic, or let a delayed request arrive; most often nothing."""
        chance = self.chance.random()
        if chance < 0.03:
            for topic in broker.topics.values():
                topic.held.clear()
        elif chance < 0.035 and self.may_create and len(self.names()) < 6:
            self.publish(broker, f"persistent://shop/orders/new-{len(self.names())}")
        elif chance > 0.9 and self.late:
            at, request = self.late.pop(self.chance.randrange(len(self.late)))
            if self.now <= at:
                request()

    def is_open(self, broker: Broker, name: str) -> bool:
        """Return whether clients use a topic there; they use the source before the switch."""
        return broker.serves(name) and (self.is_held or broker.name == "ewr")

    def publish(self, broker: Broker, name: str) -> None:
        if self.is_open(broker, name):
            self.published[name] += 1
            topic, message = broker.topics.setdefault(name, Topic()), (broker.name, self.published[name])
            topic.own.append(message)
            topic.store(message)

    def deliver(self, broker: Broker, name: str) -> None:
        topic = broker.of(name)
        message = next((each for each in topic.left if each not in topic.held), None)
        if message is not None and self.is_open(broker, name):
            assert (name, message[1]) not in self.acknowledged, f"{name}: {message} is repeated"
            assert message[1] <= self.delivered[name] + 1, f"{name}: {message} is early, or one before it is lost"
            self.delivered[name] = max(self.delivered[name], message[1])
            topic.held.append(message)

    def acknowledge(self, broker: Broker, name: str) -> None:
        topic = broker.of(name)
        fence = topic.fence
        if topic.held and (fence is None or fence.phase is Phase.SETTLING):
            message = topic.held.pop(self.chance.randrange(len(topic.held)))
            topic.acknowledge(message)
            topic.made_here.append(message)
            self.acknowledged.add((name, message[1]))

    def carry(self, broker: Broker, name: str) -> None:
        topic = broker.of(name)
        if topic.carried < len(topic.own):
            broker.other.topics.setdefault(name, Topic()).store(topic.own[topic.carried])
            topic.carried += 1

    def confirm(self, broker: Broker, name: str) -> None:
        topic = broker.of(name)
        if broker.other.topics.get(name) is not None:
            for message in topic.made_here[topic.confirmed :]:
                broker.other.of(name).acknowledge(message)
            topic.confirmed = len(topic.made_here)

    def fail(self, request: Callable[[], None]) -> None:
        """Make a request, or let it, its answer or the migrator get lost, or the migrator be stopped for some time."""
        self.pass_time(self.chance.choice([0.0, 0.01, 0.05]))
        if not self.faults or self.chance.random() > 0.12:
            request()
            self.check()
            return
        self.faults -= 1
        kind = self.chance.randrange(6)
        if kind == STOPPED:
            self.pass_time(LEASE_S)
            self.pass_time(0.0)  # clients go on where leases are over
            request()
            self.check()
            return
        if kind in (0, 1):
            request()
        elif kind == 2:
            self.late.append((self.now + LATE_S, lambda: _silent(request)))
        self.check()
        if kind in (1, 3):
            raise UnansweredError(SIDE)
        if self.chance.random() < 0.3:
            self.now += LEASE_S  # it is started again after a while
        raise CrashError


def _silent(request: Callable[[], None]) -> None:
    try:
        request()
    except FenceRefusedError:
        return


@dataclass
class Remote:
    """See magnetar.migration.switching.cluster.Cluster: requests to a virtual broker."""

    broker: Broker

    @property
    def name(self) -> str:
        return self.broker.name

    def fence(self, topic: str, epoch: int, phase: Phase) -> TopicState:
        self.broker.world.fail(lambda: self.broker.set_fence(topic, epoch, phase))
        return self.broker.state(topic)

    def look(self, topic: str, *, digests: bool = False) -> TopicState:
        self.broker.world.fail(lambda: None)
        found = self.broker.state(topic)
        if digests:
            return found
        return replace(
            found, subscriptions={name: replace(each, digest=None) for name, each in found.subscriptions.items()}
        )

    def remove_fence(self, topic: str, epoch: int, *, final: bool = False) -> None:
        self.broker.world.fail(lambda: self.broker.remove_fence(topic, epoch, final=final))

    def replicate(self, topic: str, subscription: str) -> None:
        raise AssertionError(topic, subscription)

    def producer_state(self, topic: str) -> ProducerState:
        found = self.broker.producer_states.get(topic)
        if found is not None:
            self.broker.world.fail(lambda: None)
        return found or ProducerState()

    def add_producer_state(self, topic: str, state: ProducerState) -> None:
        self.broker.world.fail(lambda: self.broker.add_producer_state(topic, state))

    def set_former(self, topic: str, cluster: str) -> str:
        self.broker.world.fail(lambda: None)
        assert (self.name, cluster, topic) != ("ewr", "jfk", topic), "the source does not translate"
        return ""

    def routes(self) -> dict[str, str]:
        self.broker.world.fail(lambda: None)
        return {scope: cluster for scope, (cluster, _) in self.broker.route.items() if cluster is not None}

    def set_route(self, scope: str, cluster: str) -> None:
        known, epoch = self.broker.route.get(scope, (None, 0))
        if known != cluster:
            self.broker.world.fail(lambda: self.broker.change_route(scope, cluster, epoch))

    def delete_route(self, scope: str) -> None:
        known, epoch = self.broker.route.get(scope, (None, 0))
        if known is not None:
            self.broker.world.fail(lambda: self.broker.change_route(scope, None, epoch))

    def topics(self) -> Sequence[str]:
        self.broker.world.fail(lambda: None)
        return sorted(self.broker.topics)

    def partitions_of(self, topic: TopicName) -> int:
        prefix = f"{topic}-partition-"
        return sum(name.startswith(prefix) for name in self.broker.topics)

    def create_as_in(self, topic: str, other: Cluster) -> None:
        assert other.name != self.name
        self.broker.world.fail(lambda: self.broker.create(topic))


class VirtualJournal:
    """The journal on a disk that survives a crash."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.migration = Migration()
        for record in world.records:
            self.migration.apply(record)

    def append(self, record: Record) -> None:
        self._world.pass_time(0.005)
        world = self._world
        crash = bool(world.faults) and world.chance.random() < 0.08
        if crash:
            world.faults -= 1
            if world.chance.random() < 0.5:
                raise CrashError
        self.migration.apply(record)
        world.records.append(from_json(to_json(record)))
        if crash:
            raise CrashError


@dataclass
class VirtualClock:
    """See magnetar.migration.switching.switch.World."""

    world: World

    def monotonic(self) -> float:
        return self.world.now

    def wait(self, seconds: float) -> bool:
        self.world.pass_time(seconds)
        return False


@dataclass
class Interleaved:
    """See magnetar.migration.switching.switch.Driver: one step of any move at a time."""

    world: World

    def __call__(self, moves: Sequence[TopicMove], moved: Callable[[TopicMove], None]) -> None:
        left = list(moves)
        while left:
            move = self.world.chance.choice(left)
            wait = move.step()
            if wait is None:
                left.remove(move)
                moved(move)
            else:
                self.world.pass_time(wait)
