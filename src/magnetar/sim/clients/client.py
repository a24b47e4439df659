"""The base class of simulated clients: a client with a connection that is reopened after each loss."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from magnetar.sim.cluster import PORT
from magnetar.sim.virtual.scheduler import MachineLoop
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import TopicName
    from magnetar.sim.virtual.network import Network
    from magnetar.sim.virtual.scheduler import Scheduler
    from magnetar.wire.frame import Frame

CLIENT_VERSION = "simulated"
"""The client version of simulated producers and consumers; links use another one."""

RECONNECT_S = (0.05, 0.8)
"""Bounds of the delay before a reconnection, in seconds."""


class Observer(Protocol):
    """An observer of the results that clients get. Each kind of client extends the protocol."""

    def note(self, source: str, target: str, text: str) -> None:
        """Record an event in the trace."""
        ...


W = TypeVar("W", bound=Observer)
W_co = TypeVar("W_co", bound=Observer, covariant=True)


@dataclass(frozen=True, slots=True)
class ClientContext(Generic[W_co]):
    """The environment of a client."""

    scheduler: Scheduler
    network: Network
    topic: TopicName
    observer: W_co
    """The observer of the topic."""
    replicated: bool
    """Whether consumers request replicated subscriptions."""


class Peer(asyncio.Protocol):
    """A client's connection, closed at the first error."""

    def __init__(self, client: SimClient[W], now: float) -> None:
        """Create the connection of ``client``."""
        self._client = client
        self._wire = Connection(Role.CLIENT, now=now)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(commands.connect(client_version=CLIENT_VERSION))

    def data_received(self, data: bytes) -> None:
        """Pass received commands to the client."""
        for frame in self._wire.receive(data, self._client.loop.time()):
            if frame.command.type == pb.BaseCommand.CONNECTED:
                self._client.connected(self)
            else:
                self._client.heard(self, frame)
        self.say(self._wire.take_output())

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss to the client, which reconnects."""
        del exc
        self._client.lost(self)

    def say(self, data: bytes) -> None:
        """Send bytes, if the connection is open."""
        if self._transport is not None and data:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


class SimClient(Generic[W]):
    """A client of one topic."""

    def __init__(self, name: str, cluster: str, context: ClientContext[W]) -> None:
        """Connect to ``cluster`` from a machine in that cluster."""
        self.name = name
        self.cluster = cluster
        self.topic = context.topic
        self.loop = MachineLoop(context.scheduler, f"{cluster}.{name}", context.network)
        self.peer: Peer | None = None
        self.observer: W = context.observer
        self.stopped = False
        self._chance = context.network.chance
        self._request_ids = 0
        self._connecting = False
        self._reconnect: asyncio.TimerHandle | None = None
        """The timer of the next reconnection, if there is one."""
        self.patience = 1
        """Factor of the delay before the next reconnection."""
        self.connect()

    @property
    def machine(self) -> str:
        """Return the name of the client's machine."""
        return self.loop.name

    def connect(self) -> None:
        """Connect, unless the client is connected or connecting."""
        if self.peer is None and not self._connecting and not self.stopped:
            self._connecting = True
            self.loop.create_task(self._connect())

    def stop(self) -> None:
        """Disconnect for good."""
        self.stopped = True
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection."""
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.close()

    def request_id(self) -> int:
        """Return a new request id."""
        self._request_ids += 1
        return self._request_ids

    def say(self, *frames: bytes) -> None:
        """Send frames, if the client is connected."""
        if self.peer is not None:
            self.peer.say(b"".join(frames))

    def again(self, work: Callable[[], None]) -> None:
        """Call ``work`` after a random delay, unless the connection is lost or closed before."""
        peer = self.peer

        def unless_lost() -> None:
            if self.peer is peer and peer is not None:
                work()

        self.loop.call_later(self._chance.uniform(*RECONNECT_S), unless_lost)

    def reconnect(self) -> None:
        """Reconnect after a delay, or earlier if an earlier timer is set.

        There is one timer at most: two timers would become four with the next failure.
        """
        delay = self._chance.uniform(*RECONNECT_S) * self.patience
        if self._reconnect is not None:
            if self._reconnect.when() <= self.loop.time() + delay:
                return
            self._reconnect.cancel()
        self._reconnect = self.loop.call_later(delay, self._connect_again)

    def _connect_again(self) -> None:
        self._reconnect = None
        self.connect()

    async def _connect(self) -> None:
        try:
            await self.loop.create_connection(lambda: Peer(self, self.loop.time()), self.cluster, PORT)
        except OSError:
            self.reconnect()
        finally:
            self._connecting = False

    def connected(self, peer: Peer) -> None:
        """Handle CONNECTED from the broker."""
        if self.peer is not None or self.stopped:
            peer.close()
            return
        self.peer = peer
        self.opened()

    def lost(self, peer: Peer) -> None:
        """Handle the loss of the connection."""
        if self.peer is peer:
            self.peer = None
            self.closed()
            self.reconnect()
        elif self.peer is None:
            self.reconnect()

    def heard(self, peer: Peer, frame: Frame) -> None:
        """Handle a command, unless it is from an earlier connection."""
        if peer is self.peer:
            self.take(frame)

    def opened(self) -> None:
        """Handle the opening of the connection."""
        raise NotImplementedError

    def closed(self) -> None:
        """Handle the closing of the connection."""
        raise NotImplementedError

    def take(self, frame: Frame) -> None:
        """Handle a command."""
        raise NotImplementedError
