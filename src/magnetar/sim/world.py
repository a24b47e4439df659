"""Clusters, pipeline and clients of one seed, on one virtual clock: what may happen to them, and that they recover."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import sys
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import structlog

from magnetar.base.errors import MagnetarError
from magnetar.sim.carrier import Relay
from magnetar.sim.clients.client import CLIENT_VERSION, ClientContext
from magnetar.sim.clients.consumer import SimConsumer
from magnetar.sim.clients.producer import SimProducer
from magnetar.sim.clients.reader import SimReader
from magnetar.sim.referees.referee import Referee
from magnetar.sim.scenario import FEATURES
from magnetar.sim.site import Site
from magnetar.sim.story import Story
from magnetar.sim.virtual.network import Network
from magnetar.sim.virtual.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.base.names import TopicName
    from magnetar.sim.referees.topic_referee import TopicReferee
    from magnetar.sim.scenario import Scenario
    from magnetar.sim.site import Replica

    Kind = TypeVar("Kind", bound="Happening")

_BUGS = frozenset({"connection_failed", "request_failed", "maintenance_failed"})
"""Events of the log that say that something was raised that nobody expected."""

_TOO_LARGE = "exceeds the limit"
"""In the error of a frame that is too large. Other errors follow when a process was stopped for a long time."""

DOWN_S = (0.1, 4.0)
"""How long a broker is down after a crash."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that may happen. Its name is counted each time it did."""

    name: str
    weight: float
    do: Callable[[], bool]
    """Do it now; returns False if there was nothing that it could be done to."""
    is_fault: bool = False


class Happening:
    """One kind of happening. A subclass is listed in ``KINDS`` of ``magnetar.sim.happenings``, and that is all."""

    name: ClassVar[str]
    share: ClassVar[float] = 1.0
    """The share of worlds in which it is enabled, 0 to 1."""
    counted: ClassVar[tuple[str, ...]] = ()
    """Further events that it counts with ``World.count``; actions are counted by themselves."""

    def __init__(self, world: World) -> None:
        """Happen in ``world``."""
        self.world = world

    @property
    def chance(self) -> Random:
        """The world's only source of chance."""
        return self.world.chance

    def actions(self) -> Iterable[Action]:
        """What may happen, as long as this kind is enabled. The names must not depend on the world."""
        return ()

    def begin(self) -> None:
        """Prepare the world before the first action."""

    def heal(self) -> None:
        """End all that is wrong because of this kind; from then on nothing of it happens."""


class Invariant:
    """One thing that must be true. A subclass is listed in ``INVARIANTS`` of ``magnetar.sim.invariants``.

    What concerns the frames of one topic is checked as they come, by ``TopicReferee``.
    """

    counted: ClassVar[tuple[str, ...]] = ()
    """States that it counts with ``World.count``."""

    def __init__(self, world: World) -> None:
        """Watch ``world``."""
        self.world = world

    def check(self) -> None:
        """Look after every step, and call ``World.referee.violate`` if something is wrong."""

    def missing(self) -> str:
        """In peace, what is not yet as it must be; empty when nothing is. It may take ``PEACE_S``."""
        return ""

    def at_end(self) -> str:
        """Once everything was consumed everywhere, what is not yet as it must be; empty when nothing is."""
        return ""


class World:
    """Everything there is. The same scenario gives the same world, to the last byte."""

    def __init__(
        self,
        scenario: Scenario,
        happenings: Iterable[Callable[[World], Happening]],
        invariants: Iterable[Callable[[World], Invariant]],
    ) -> None:
        """Start the clusters and the pipeline; ``happenings`` may happen, and ``invariants`` must be true."""
        self.scenario = scenario
        self.chance = Random(scenario.seed)
        self.scheduler = Scheduler()
        self.story = Story()
        self.referee = Referee(scenario, self.scheduler, self.story)
        self.network = Network(self.chance, self._arrived)
        names = scenario.clusters
        self.sites = {name: Site(name, scenario, self.scheduler, self.network, self.referee) for name in names}
        self.relays = [
            Relay(name, [other for other in names if other != name], self.scheduler, self.network, self.chance)
            for name in names
        ]
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self.readers: list[SimReader] = []
        self.happenings = [kind(self) for kind in happenings]
        self.invariants = [invariant(self) for invariant in invariants]
        self.counts: Counter[str] = Counter(dict.fromkeys(self._names_counted(), 0))
        """How often each event and each state occurred; see Coverage."""
        self.counts.update(scenario.features())
        self.were_away: set[str] = set()
        """Clusters that have left the namespace, for a while: what others trimmed meanwhile they may not have."""
        self.peace_from_s = 0.0
        """From when on there is peace in virtual seconds: the last thing that is wrong is repaired then."""
        self.is_healed = False
        """Whether there is peace, so that nothing of what was to come later may happen any more."""
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._orders = itertools.count()
        self._numbers = itertools.count(1)
        for site in self.sites.values():
            site.peers = self.sites
            site.clock.jumped_s = self.chance.uniform(-2.0, 2.0)
            site.start()
        for relay in self.relays:
            relay.hand_over()

    # -- time -------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass, then check everything."""
        until = self.scheduler.now + seconds
        while self._later and self._later[0][0] <= until:
            at, _, work = heapq.heappop(self._later)
            self.scheduler.run_until(max(at, self.scheduler.now))
            work()
        self.scheduler.run_until(until)
        self.referee.check(self.running())
        for invariant in self.invariants:
            invariant.check()
        if self.scheduler.problems:
            self.referee.violate(f"raised and not caught: {self.scheduler.problems[0]}")

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Do something from outside, such as to pull a plug, in the middle of whatever happens then."""
        heapq.heappush(self._later, (self.scheduler.now + seconds, next(self._orders), work))

    @contextlib.contextmanager
    def watched_log(self) -> Iterator[None]:
        """Keep the brokers' log to ourselves, and take bugs that it tells of for violations."""
        before = structlog.get_config()
        structlog.configure(
            processors=[self._logged],
            wrapper_class=structlog.make_filtering_bound_logger(30),
            cache_logger_on_first_use=False,
        )
        try:
            yield
        finally:
            structlog.configure(**before)

    def close(self) -> None:
        """Release what is not memory."""
        self.scheduler.close()
        for site in self.sites.values():
            site.close()

    def _logged(self, _logger: Any, _method: str, event: Any) -> Any:
        if event["event"] in _BUGS:
            self.referee.violate(f"{event['event']}: {sys.exc_info()[1]!r}")
        if event["event"] == "protocol_error" and event["client"] != CLIENT_VERSION and _TOO_LARGE in event["error"]:
            self.referee.violate(f"B: a link ends the connection of all topics: {event['error']}")
        raise structlog.DropEvent

    def _arrived(self, source: str, target: str, data: bytes) -> None:
        self.story.count(self.scheduler.now, source, target, data)

    # -- what there is ----------------------------------------------------------------------------------------------

    def kind(self, kind: type[Kind]) -> Kind:
        """The one happening of a kind, enabled or not."""
        return next(each for each in self.happenings if isinstance(each, kind))

    def running(self) -> list[Site]:
        """The clusters whose broker runs."""
        return [site for site in self.sites.values() if site.running]

    def loaded(self) -> list[Replica]:
        """The topics that are loaded, in every cluster."""
        replicas = [replica for site in self.running() for replica in site.replicas.values()]
        return [replica for replica in replicas if replica.topic is not None]

    def add_producer(self, topic: TopicName) -> SimProducer:
        """A producer comes, to any cluster."""
        cluster = self.chance.choice(list(self.sites))
        producer = SimProducer(f"p{next(self._numbers)}", cluster, self._context(topic))
        self.producers.append(producer)
        return producer

    def add_consumer(self, topic: TopicName, subscription: str, cluster: str, *, earliest: bool) -> SimConsumer:
        """A consumer comes."""
        name = f"c{next(self._numbers)}"
        consumer = SimConsumer(name, cluster, self._context(topic), subscription, earliest=earliest)
        self.consumers.append(consumer)
        return consumer

    def add_reader(self, topic: TopicName, cluster: str) -> SimReader:
        """A reader comes."""
        reader = SimReader(f"r{next(self._numbers)}", self.sites[cluster].replicas[topic], self._context(topic))
        self.readers.append(reader)
        return reader

    def _context(self, topic: TopicName) -> ClientContext[TopicReferee]:
        witness = self.referee.topics[topic]
        return ClientContext(self.scheduler, self.network, topic, witness, self.scenario.replicated)

    # -- what is done to it -----------------------------------------------------------------------------------------

    def crash(self, site: Site) -> None:
        """Pull a plug, and put it in again a while later; without effect while the broker is down."""
        if site.running:
            self.note(site.name, "loses power")
            self.referee.look_at_logs(site)
            site.crash(self.chance)
            self.referee.ended(site, power_lost=True)
            self.later(self.chance.uniform(*DOWN_S), lambda: self.start(site))

    def replace_disk(self, site: Site) -> None:
        """Have a cluster come back under its name with an empty disk."""
        self.crash(site)
        site.replace_disk()
        for name in self.scenario.topics:
            self.lose(site.replicas[name])
            self.referee.topics[name].model.lose_disk(site.name)

    def lose(self, replica: Replica) -> None:
        """Tell everybody that a cluster has lost a topic."""
        self.referee.topics[replica.name].lose(replica)

    def kill(self, site: Site, down_s: float | None = None) -> None:
        """End a broker's process and start it again in ``down_s``, else a while later; no effect while it is down."""
        if site.running:
            self.note(site.name, "is killed")
            self.referee.look_at_logs(site)
            site.kill(self.chance)
            self.referee.ended(site, power_lost=False)
            self.later(self.chance.uniform(*DOWN_S) if down_s is None else down_s, lambda: self.start(site))

    def start(self, site: Site) -> None:
        """Start a broker that is down; it must accept what a crash left it, once its disk takes writes."""
        if site.running:
            return
        try:
            site.start()
        except MagnetarError as error:
            if site.disk.is_sound:
                self.referee.violate(f"{site.name} refuses what a crash left it: {error}")
            else:
                self.later(self.chance.uniform(*DOWN_S), lambda: self.start(site))
        else:
            self.note(site.name, "starts again")
            self._look_for_deletions(site)
            self.referee.started(site)
            if self.is_healed:  # a disk may have been replaced last of all, and an empty topic is brought by no link
                site.loop.create_task(self.have_topics(site))

    async def have_topics(self, site: Site) -> None:
        """Have all topics in a cluster, as clients would that use them."""
        await self.finish_deletions(site)
        await site.have_topics()

    async def finish_deletions(self, site: Site) -> None:
        """Finish what failed in the middle: a partitioned topic that is marked as deleted refuses its clients."""
        existed = [replica for name, replica in site.replicas.items() if site.topics.exists(name)]
        self.referee.look_at_logs(site)
        try:
            await site.maintenance.finish_deletions()
        finally:  # also when the process ended in the middle
            for replica in existed:
                if not site.topics.exists(replica.name):
                    self.lose(replica)

    def _look_for_deletions(self, site: Site) -> None:
        """See which topics are gone: their deletion was refused, and its write is found after the start."""
        if site.metadata.found is not None:
            for name, replica in site.replicas.items():
                if not site.topics.exists(name):
                    self.lose(replica)

    # -- what is told of it -----------------------------------------------------------------------------------------

    def note(self, where: str, text: str, target: str = "") -> None:
        """Tell of something that was done to a place, or by one to another."""
        self.referee.note(where, target, text)

    def count(self, event: str, times: int = 1) -> None:
        """Count an event, or a state, for the coverage table."""
        if times:
            self.counts[event] += times

    def _names_counted(self) -> Iterator[str]:
        """All events and states that the coverage table has, whether they are enabled here or not."""
        yield from FEATURES
        for happening in self.happenings:
            yield from (action.name for action in happening.actions())
            yield from happening.counted
        for invariant in self.invariants:
            yield from invariant.counted
