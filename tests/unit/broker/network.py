"""Clusters with a replicated namespace and without sockets: manual links, and progress links that can be cut."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import MagnetarError
from magnetar.broker.session.receiving import receive
from magnetar.broker.session.session import Session
from magnetar.client.connection import PulsarConnection
from magnetar.client.options import DEFAULT_OPTIONS
from magnetar.geo.progress.link import LinkOptions, ProgressLinks
from magnetar.sim.cluster import Client, Cluster
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire.connection import Connection, Role
from magnetar.wire.message_id import position_of

if TYPE_CHECKING:
    from magnetar.base.position import Position

FULL_STATE_INTERVAL_S = 30.0


class Wire:
    """Both ends of one connection: the transport of its client, and the protocol of the broker's session."""

    def __init__(self, cluster: Cluster, opened: PulsarConnection) -> None:
        self.opened = opened
        self._cluster = cluster
        self._connection = Connection(Role.BROKER, now=cluster.clock.monotonic())
        self._session = Session(cluster.environment, cluster.domains, _SessionsEnd(self), self._connection)
        self._is_open = True
        opened.connection_made(_OpenersEnd(self))  # type: ignore[arg-type]

    def to_broker(self, data: bytes) -> None:
        self._cluster.loop.call_soon(self._receive, data)

    def to_opener(self, data: bytes) -> None:
        self._cluster.loop.call_soon(lambda: self.opened.data_received(data) if self._is_open else None)

    def cut(self) -> None:
        if self._is_open:
            self._is_open = False
            self._session.closed()
            self.opened.connection_lost(None)

    def _receive(self, data: bytes) -> None:
        if self._is_open:
            now = self._cluster.clock.monotonic()
            left = receive(self._session, self._connection.receive_gathering(data, now))
            while left or self._connection.decoder.has_more:
                left = receive(self._session, left or self._connection.receive_gathering(b"", now))
            self.to_opener(self._connection.take_output())


class _SessionsEnd:
    def __init__(self, wire: Wire) -> None:
        self.write, self.close, self.abort = wire.to_opener, wire.cut, wire.cut
        self.pause_reading = self.resume_reading = self.probe = lambda: None


class _OpenersEnd:
    def __init__(self, wire: Wire) -> None:
        self.write, self.close = wire.to_broker, wire.cut


class WiredLinks(ProgressLinks):
    """Progress links between the clusters of a network."""

    def __init__(self, network: ClusterNetwork, cluster: Cluster) -> None:
        options = LinkOptions(interval_s=0.05, full_state_interval_s=FULL_STATE_INTERVAL_S)
        super().__init__(cluster.name, lambda _: None, cluster.clock, options)
        self._network = network
        self._open: dict[str, PulsarConnection] = {}

    async def connection(self, peer: str) -> PulsarConnection:
        existing = self._open.get(peer)
        if existing is not None and existing.failure is None:
            return existing
        if not self._network.is_reachable(self.cluster, peer):
            message = f"{peer} cannot be reached"
            raise MagnetarError(message)
        opened = self._open[peer] = PulsarConnection(f"pulsar://{peer}:6650", DEFAULT_OPTIONS)
        self._network.wires[self.cluster, peer] = Wire(self._network.clusters[peer], opened)
        await opened._handshake
        return opened


class ClusterNetwork:
    """Clusters that replicate a namespace to each other; the test controls all traffic."""

    def __init__(self, *names: str, **options: Any) -> None:  # noqa: ANN401 - a cluster's
        self.loop = HandLoop()
        self.clusters: dict[str, Cluster] = {}
        self.wires: dict[tuple[str, str], Wire] = {}
        self.pipes: dict[tuple[str, str], Pipe] = {}
        self._partitioned: set[frozenset[str]] = set()
        for name in names:
            self.add(name, targets=[other for other in names if other != name], **options)

    def __getitem__(self, name: str) -> Cluster:
        return self.clusters[name]

    def add(self, name: str, **options: Any) -> Cluster:  # noqa: ANN401 - a cluster's
        cluster = Cluster(name, loop=self.loop, links=lambda made: WiredLinks(self, made), **options)
        # Ledger ids of a real store begin at its creation time: no two clusters or lives of one share ids.
        cluster.store.ids.begin_at(100 * (len(self.clusters) + 1))
        self.clusters[name] = cluster
        for other in self.clusters:
            if other != name:
                self.pipes[name, other] = Pipe(cluster, self.clusters[other])
                self.pipes[other, name] = Pipe(self.clusters[other], cluster)
        return cluster

    # -- the network ------------------------------------------------------------------------------------------------

    def is_reachable(self, one: str, other: str) -> bool:
        return other in self.clusters and frozenset((one, other)) not in self._partitioned

    def cut(self, one: str, other: str) -> None:
        self._partitioned.add(frozenset((one, other)))
        for ends in ((one, other), (other, one)):
            if ends in self.wires:
                self.loop.call_soon(self.wires.pop(ends).cut)
        self.settle()

    def heal(self, one: str, other: str) -> None:
        self._partitioned.discard(frozenset((one, other)))
        self.progress(6.0)

    # -- time -------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        self.loop.spin()
        while any(cluster.store.pending for cluster in self.clusters.values()):
            for cluster in self.clusters.values():
                cluster.settle()
        assert self.loop.problems == []

    def progress(self, seconds: float = 1.0) -> None:
        """Run progress links: time passes in small steps, and everything becomes durable at once."""
        for _ in range(int(seconds / 0.1)):
            self.settle()
            self.loop.advance(0.1)
        self.settle()

    def full_states(self) -> None:
        """Make every link send its full state again."""
        self.progress(FULL_STATE_INTERVAL_S + 1)

    # -- entries ----------------------------------------------------------------------------------------------------

    def carry(self, source: str | None = None, target: str | None = None) -> None:
        """Carry all entries, of all links or of the given ones."""
        for (one, other), pipe in self.pipes.items():
            wanted = source in (None, one) and target in (None, other) and self.is_reachable(one, other)
            if wanted and other in self.clusters[one].topic().replicators:
                pipe.attach(permits=1000)
                pipe.run()
        self.settle()

    def publish(self, name: str, *texts: str) -> list[Position]:
        client = self[name].client()
        client.produce()
        client.send(*texts)
        return [position for _, position in client.receipts()]


class Worker:
    """A consumer of a replicated subscription in one cluster, with the positions of its messages."""

    _ids = itertools.count(1)

    def __init__(self, network: ClusterNetwork, name: str, **fields: Any) -> None:  # noqa: ANN401 - of SUBSCRIBE
        self.network, self.cluster = network, network[name]
        self.client: Client = self.cluster.client()
        self.positions: dict[str, Position] = {}
        self.client.subscribe(replicate_subscription_state=True, **fields)

    def read(self) -> list[str]:
        """Return the messages since the last call."""
        self.network.settle()
        heard = [frame for frame in self.client.heard if frame.command.HasField("message")]
        texts = self.client.messages()
        for frame, text in zip(heard, texts, strict=True):
            self.positions[text] = position_of(frame.command.message.message_id)
        return texts

    def ack(self, *texts: str) -> None:
        self.client.ack(*(self.positions[text] for text in texts))

    def leave(self) -> None:
        self.client.leave()
