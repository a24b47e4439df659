"""Clusters, pipeline and clients of one seed, on one virtual clock: what may happen to them, and that they recover."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import sys
from random import Random
from typing import TYPE_CHECKING, Any

import structlog

from magnetar.metadata.policies import Policies
from magnetar.sim.at_risk import LagPolicy
from magnetar.sim.carrier import Relay
from magnetar.sim.clients import Failover, Key_Shared, Shared, SimConsumer, SimProducer
from magnetar.sim.network import Network
from magnetar.sim.referee import Referee
from magnetar.sim.scheduler import Scheduler
from magnetar.sim.site import Site
from magnetar.sim.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.wire.proto import pulsar_api_pb2 as pb

CLUSTER_NAMES = ("ewr", "jfk", "lga", "ord", "sfo")

SUBSCRIPTIONS: dict[str, pb.CommandSubscribe.SubType.ValueType] = {
    "worker": Shared,
    "ledger": Failover,
    "keys": Key_Shared,
}

_BUGS = frozenset({"connection_failed", "request_failed", "maintenance_failed"})
"""Events of the log that say that something was raised that nobody expected."""

BOUNDED = 0.3
"""The share of worlds with a bound on what is at risk."""


class World:
    """Everything there is. The same seed gives the same world, to the last byte."""

    def __init__(self, seed: int, clusters: int) -> None:
        """Start ``clusters`` clusters, a pipeline and some clients."""
        self.chance = Random(seed)
        self.scheduler = Scheduler()
        self.story = Story()
        names = list(CLUSTER_NAMES[:clusters])
        lag_policy = self._lag_policy()
        self.referee = Referee(names, self.scheduler, self.story, lag_policy)
        self.network = Network(self.chance, self._arrived)
        self.sites = {
            name: Site(name, _policies(names, lag_policy), self.scheduler, self.network, self.referee) for name in names
        }
        self.relays = [
            Relay(name, [other for other in names if other != name], self.scheduler, self.network, self.chance)
            for name in names
        ]
        self.producers: list[SimProducer] = []
        self.consumers: list[SimConsumer] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._orders = itertools.count()
        self._numbers = {"producer": 0, "consumer": 0}
        for site in self.sites.values():
            site.clock.jumped_s = self.chance.uniform(-2.0, 2.0)
            site.start()
        for relay in self.relays:
            relay.hand_over()

    def _lag_policy(self) -> LagPolicy | None:
        """Some worlds have a bound on what is at risk."""
        if self.chance.random() >= BOUNDED:
            return None
        return LagPolicy(self.chance.choice((0, 1, 2, 5)), self.chance.choice((1, 1, 2)))

    # -- time -------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass, then check everything."""
        until = self.scheduler.now + seconds
        while self._later and self._later[0][0] <= until:
            at, _, work = heapq.heappop(self._later)
            self.scheduler.run_until(max(at, self.scheduler.now))
            work()
        self.scheduler.run_until(until)
        for site in self.sites.values():
            if site.running:
                self.referee.check(site)
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
            wrapper_class=structlog.make_filtering_bound_logger(40),
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
        raise structlog.DropEvent

    def _arrived(self, source: str, target: str, data: bytes) -> None:
        self.story.count(self.scheduler.now, source, target, data)

    # -- who there is -----------------------------------------------------------------------------------------------

    def running(self) -> list[Site]:
        """The clusters whose broker runs."""
        return [site for site in self.sites.values() if site.running]

    def add_producer(self) -> None:
        """A producer comes."""
        self._numbers["producer"] += 1
        site = self.chance.choice(list(self.sites))
        name = f"p{self._numbers['producer']}"
        self.producers.append(SimProducer(name, site, self.scheduler, self.network, self.referee))

    def add_consumer(self, subscription: str, cluster: str, *, earliest: bool) -> SimConsumer:
        """A consumer comes."""
        self._numbers["consumer"] += 1
        consumer = SimConsumer(
            f"c{self._numbers['consumer']}",
            (cluster, subscription),
            SUBSCRIPTIONS[subscription],
            (self.scheduler, self.network, self.referee),
            earliest=earliest,
        )
        self.consumers.append(consumer)
        return consumer

    def note(self, where: str, text: str) -> None:
        """Tell of something that was done to a place."""
        self.referee.note(where, "", text)


def _policies(clusters: list[str], lag: LagPolicy | None) -> Policies:
    if lag is None:
        return Policies(replication_clusters=clusters)
    return Policies(replication_clusters=clusters, max_at_risk_messages=lag.messages, at_risk_copies=lag.copies)
