"""The clusters, the pipeline and the clients of one run on one virtual clock, with operations on them."""

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
from magnetar.metadata.resources import Resources, managed_ledger_path
from magnetar.sim.checks.simulation_checks import SimulationChecks
from magnetar.sim.clients.client import CLIENT_VERSION, ClientContext
from magnetar.sim.clients.consumer import SimConsumer
from magnetar.sim.clients.producer import SimProducer
from magnetar.sim.clients.reader import SimReader
from magnetar.sim.pipeline import Pipeline
from magnetar.sim.site import Site
from magnetar.sim.trace import Trace
from magnetar.sim.virtual.network import Network
from magnetar.sim.virtual.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.base.names import TopicName
    from magnetar.metadata.store import Change
    from magnetar.sim.checks.topic_checks import TopicChecks
    from magnetar.sim.scenario import Scenario
    from magnetar.sim.site import Replica

    Group = TypeVar("Group", bound="ActionGroup")

_BUGS = frozenset({"connection_failed", "request_failed", "maintenance_failed"})
"""Log events for unexpected exceptions."""

_TOO_LARGE = "exceeds the limit"
"""Part of the error of a frame above the limit. Other errors also follow a long suspension of a process."""

DOWN_S = (0.1, 4.0)
"""Bounds of the time for which a broker is down after a crash, in seconds."""


@dataclass(frozen=True, slots=True)
class Action:
    """A random action. Each execution is counted by its name."""

    name: str
    weight: float
    do: Callable[[], bool]
    """Run the action; return False if it was not possible."""
    is_fault: bool = False


class ActionGroup:
    """A group of random actions. Subclasses are listed in ``ACTION_GROUPS`` of ``magnetar.sim.actions``."""

    name: ClassVar[str]
    share: ClassVar[float] = 1.0
    """The share of runs in which it is enabled, 0 to 1."""
    counted: ClassVar[tuple[str, ...]] = ()
    """Names of further events that it counts with ``Simulation.count``; actions are counted automatically."""

    def __init__(self, simulation: Simulation) -> None:
        """Create the group for ``simulation``."""
        self.simulation = simulation

    @property
    def chance(self) -> Random:
        """Return the only source of randomness of the simulation."""
        return self.simulation.chance

    def actions(self) -> Iterable[Action]:
        """Return the actions of the group. Their names must not depend on the simulation."""
        return ()

    def begin(self) -> None:
        """Prepare the simulation before the first action."""

    def heal(self) -> None:
        """Repair all faults of this group, which runs no action afterwards."""


class Invariant:
    """An invariant over the state of brokers. Subclasses are listed in ``INVARIANTS`` of ``magnetar.sim.invariants``.

    ``TopicChecks`` checks the invariants over frames.
    """

    counted: ClassVar[tuple[str, ...]] = ()
    """Names of states that it counts with ``Simulation.count``."""

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        self.simulation = simulation

    def check(self) -> None:
        """Check after every step; report violations with ``simulation.checks.violate``."""

    def missing(self) -> str:
        """Return a reason why the liveness phase is not complete, or an empty string. It may take ``LIVENESS_S``."""
        return ""

    def at_end(self) -> str:
        """Return a reason why the state is not final after everything was consumed, or an empty string."""
        return ""


class Simulation:
    """The state of one run. The same scenario gives the same run, to the last byte."""

    def __init__(
        self,
        scenario: Scenario,
        action_groups: Iterable[Callable[[Simulation], ActionGroup]],
        invariants: Iterable[Callable[[Simulation], Invariant]],
    ) -> None:
        """Start the clusters and the pipeline, with these action groups and invariants."""
        self.scenario = scenario
        self.chance = Random(scenario.seed)
        self.scheduler = Scheduler()
        self.trace = Trace()
        self.checks = SimulationChecks(scenario, self.scheduler, self.trace)
        self.network = Network(self.chance, self._arrived)
        self.sites: dict[str, Site] = {}
        self.pipelines: list[Pipeline] = []
        self._create_clusters()
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self.readers: list[SimReader] = []
        self.action_groups = [group(self) for group in action_groups]
        self.invariants = [invariant(self) for invariant in invariants]
        self.counts: Counter[str] = Counter(dict.fromkeys(self._names_counted(), 0))
        """The occurrences of each event and each state; see Coverage."""
        self.counts.update(scenario.features())
        self.were_away: set[str] = set()
        self.custody: dict[str, str] = {}
        """By cluster that is away, the cluster that carries its entries."""
        """Clusters that left the namespace for a while. They may lack entries that others trimmed meanwhile."""
        self.last_repair_s = 0.0
        """The virtual time at which the last fault is repaired."""
        self.is_healed = False
        """Whether the liveness phase has begun; then pending faults must not start any more."""
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._orders = itertools.count()
        self._numbers = itertools.count(1)
        for site in self.sites.values():
            site.peers = self.sites
            site.clock.jumped_s = self.chance.uniform(-2.0, 2.0)
            self._start_first(site)
        for pipeline in self.pipelines:
            pipeline.hand_over()

    def _create_clusters(self) -> None:
        """Create the clusters and the pipelines, which are started later."""
        names = self.scenario.clusters
        for name in names:
            others = [other for other in names if other != name]
            self.sites[name] = Site(name, self.scenario, self.scheduler, self.network, self.checks)
            self.pipelines.append(Pipeline(name, others, self.scheduler, self.network, self.chance))

    def _start_first(self, site: Site) -> None:
        """Start a new cluster."""
        site.start()

    # -- time -------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Run for ``seconds``, then check all invariants."""
        until = self.scheduler.now + seconds
        while self.scheduler.now < until or self._is_due():
            self.scheduler.run_until(min(until, self._later[0][0]) if self._later else until)
            while self._is_due():
                heapq.heappop(self._later)[-1]()
        self.checks.check(self.running())
        for invariant in self.invariants:
            invariant.check()
        if self.scheduler.problems:
            self.checks.violate(f"unhandled exception: {self.scheduler.problems[0]}")

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        """Schedule an external event, such as a loss of power, at any point of the running code."""
        at = self.scheduler.now + seconds
        heapq.heappush(self._later, (at, next(self._orders), work))
        self.scheduler.end_at(at)

    def _is_due(self) -> bool:
        return bool(self._later) and self._later[0][0] <= self.scheduler.now

    @contextlib.contextmanager
    def watched_log(self) -> Iterator[None]:
        """Capture the brokers' log, and report unexpected exceptions in it as violations."""
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
        """Release resources other than memory."""
        self.scheduler.close()
        for site in self.sites.values():
            site.close()

    def _logged(self, _logger: Any, _method: str, event: Any) -> Any:
        if event["event"] in _BUGS:
            self.checks.violate(f"{event['event']}: {sys.exc_info()[1]!r}")
        if event["event"] == "protocol_error" and event["client"] != CLIENT_VERSION and _TOO_LARGE in event["error"]:
            self.checks.violate(f"B: a link ends the connection of all topics: {event['error']}")
        raise structlog.DropEvent

    def _arrived(self, source: str, target: str, data: bytes) -> None:
        self.trace.count(self.scheduler.now, source, target, data)

    # -- members ----------------------------------------------------------------------------------------------------

    def group(self, cls: type[Group]) -> Group:
        """Return the action group of a class, enabled or not."""
        return next(each for each in self.action_groups if isinstance(each, cls))

    def running(self) -> list[Site]:
        """Return the clusters with a running broker."""
        return [site for site in self.sites.values() if site.running]

    def loaded(self) -> list[Replica]:
        """Return the loaded topics of all clusters."""
        replicas = [replica for site in self.running() for replica in site.replicas.values()]
        return [replica for replica in replicas if replica.topic is not None]

    def replica_of(self, client: SimProducer | SimConsumer) -> Replica:
        """Return the topic of a client in its cluster."""
        return self.sites[client.cluster].replicas[client.topic]

    def add_producer(self, topic: TopicName) -> SimProducer:
        """Create a producer in a random cluster."""
        cluster = self.chance.choice(list(self.sites))
        producer = SimProducer(f"p{next(self._numbers)}", cluster, self._context(topic))
        self.producers.append(producer)
        return producer

    def add_consumer(self, topic: TopicName, subscription: str, cluster: str, *, earliest: bool) -> SimConsumer:
        """Create a consumer."""
        name = f"c{next(self._numbers)}"
        consumer = SimConsumer(name, cluster, self._context(topic), subscription, earliest=earliest)
        self.consumers.append(consumer)
        return consumer

    def add_reader(self, topic: TopicName, cluster: str) -> SimReader:
        """Create a reader."""
        reader = SimReader(f"r{next(self._numbers)}", self.sites[cluster].replicas[topic], self._context(topic))
        self.readers.append(reader)
        return reader

    def _context(self, topic: TopicName) -> ClientContext[TopicChecks]:
        observer = self.checks.topics[topic]
        return ClientContext(self.scheduler, self.network, topic, observer, self.scenario.replicated)

    # -- faults -----------------------------------------------------------------------------------------------------

    def crash(self, site: Site) -> None:
        """Cut the power of a running broker, and restore it after a while."""
        if site.running:
            self.note(site.name, "loses power")
            self.checks.look_at_logs(site)
            site.crash(self.chance)
            self.checks.ended(site, power_lost=True)
            self.later(self.chance.uniform(*DOWN_S), lambda: self.start(site))

    def replace_disk(self, site: Site) -> None:
        """Crash a cluster and replace its disk by an empty one."""
        self.crash(site)
        site.replace_disk()
        for name in self.scenario.topics:
            self.lose(site.replicas[name])
            self.checks.topics[name].model.lose_disk(site.name)

    def lose(self, replica: Replica) -> None:
        """Report to all checks that a cluster has lost a topic."""
        self.checks.topics[replica.name].lose(replica)

    def kill(self, site: Site, down_s: float | None = None) -> None:
        """Kill a running broker, and start it again after ``down_s`` seconds, or after a random time."""
        if site.running:
            self.note(site.name, "is killed")
            self.checks.look_at_logs(site)
            site.kill(self.chance)
            self.checks.ended(site, power_lost=False)
            self.later(self.chance.uniform(*DOWN_S) if down_s is None else down_s, lambda: self.start(site))

    def start(self, site: Site) -> None:
        """Start a broker that is down. It must accept the disk after a crash, if the disk works."""
        if site.running:
            return
        try:
            site.start()
        except MagnetarError as error:
            if site.disk.is_sound:
                self.checks.violate(f"{site.name} does not start after a crash: {error}")
            else:
                self.later(self.chance.uniform(*DOWN_S), lambda: self.start(site))
        else:
            self.note(site.name, "starts again")
            self._look_for_deletions(site)
            self.checks.started(site)
            if self.is_healed:  # a disk may be replaced last of all, and no link creates an empty topic
                site.loop.create_task(self.have_topics(site))

    async def have_topics(self, site: Site) -> None:
        """Create all missing topics of a cluster, as clients do."""
        await self.finish_deletions(site)
        await site.have_topics()

    def exists(self, replica: Replica) -> bool:
        """Return whether a topic exists; after the end of the process, whether the next one finds it."""
        site = replica.site
        topics = site.topics if site.running else Resources.over(site.metadata).topics
        return topics.exists(replica.name)

    async def finish_deletions(self, site: Site) -> None:
        """Finish interrupted deletions: a partitioned topic marked as deleted rejects clients."""
        with self.observed_deletions(site):
            await site.maintenance.finish_deletions()

    @contextlib.contextmanager
    def observed_deletions(self, site: Site) -> Iterator[None]:
        """Report each topic that a cluster deletes meanwhile to all checks, as soon as its deletion is durable.

        A client may create the topic again before the caller learns of the deletion. ``_look_for_deletions`` finds
        those that are durable when the process ends, but not reported.
        """
        existing = {managed_ledger_path(name): each for name, each in site.replicas.items() if self.exists(each)}

        def changed(change: Change) -> None:
            if change.after is None and change.path in existing:
                self.lose(existing.pop(change.path))

        self.checks.look_at_logs(site)
        ends = [site.metadata.watch(path, changed) for path in existing]
        try:
            yield
        finally:
            for end in ends:
                end()

    def _look_for_deletions(self, site: Site) -> None:
        """Find topics whose deletion was refused or not answered, but whose write is found after the start."""
        for name, replica in site.replicas.items():
            if managed_ledger_path(name) in site.metadata.found_deletions and not site.topics.exists(name):
                self.lose(replica)

    # -- trace and counts -------------------------------------------------------------------------------------------

    def note(self, where: str, text: str, target: str = "") -> None:
        """Record an event at a place, or between two places."""
        self.checks.note(where, target, text)

    def count(self, event: str, times: int = 1) -> None:
        """Count an event or a state for the coverage table."""
        if times:
            self.counts[event] += times

    def _names_counted(self) -> Iterator[str]:
        """Yield the names of all events and states of the coverage table, enabled or not."""
        yield from self.scenario.all_features
        for group in self.action_groups:
            yield from (action.name for action in group.actions())
            yield from group.counted
        for invariant in self.invariants:
            yield from invariant.counted
