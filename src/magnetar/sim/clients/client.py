"""What the simulation's producers and consumers share: a connection that is made again whenever it is lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from magnetar.sim.site import PORT
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
"""What producers and consumers say that they are, and links do not."""

RECONNECT_S = (0.05, 0.8)
"""How long a client waits before it tries again."""


class Witness(Protocol):
    """Who is told what clients learn. Each kind of client adds what it tells."""

    def note(self, source: str, target: str, text: str) -> None:
        """Something is worth telling."""
        ...


W = TypeVar("W", bound=Witness)
W_co = TypeVar("W_co", bound=Witness, covariant=True)


@dataclass(frozen=True, slots=True)
class ClientContext(Generic[W_co]):
    """What a client is given."""

    scheduler: Scheduler
    network: Network
    topic: TopicName
    witness: W_co
    """Of the topic."""
    replicated: bool
    """Whether consumers ask for replicated subscriptions."""


class Peer(asyncio.Protocol):
    """A client's connection: it ends with whatever goes wrong on it."""

    def __init__(self, client: SimClient[W], now: float) -> None:
        """Belong to ``client``."""
        self._client = client
        self._wire = Connection(Role.CLIENT, now=now)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(commands.connect(client_version=CLIENT_VERSION))

    def data_received(self, data: bytes) -> None:
        """Hand on what came."""
        for frame in self._wire.receive(data, self._client.loop.time()):
            if frame.command.type == pb.BaseCommand.CONNECTED:
                self._client.connected(self)
            else:
                self._client.heard(self, frame)
        self.say(self._wire.take_output())

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the client connect again."""
        del exc
        self._client.lost(self)

    def say(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None and data:
            self._transport.write(data)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()


class SimClient(Generic[W]):
    """A client of one topic."""

    def __init__(self, name: str, cluster: str, context: ClientContext[W]) -> None:
        """Connect to ``cluster``, from a machine there."""
        self.name = name
        self.cluster = cluster
        self.topic = context.topic
        self.loop = MachineLoop(context.scheduler, f"{cluster}.{name}", context.network)
        self.peer: Peer | None = None
        self.witness: W = context.witness
        self.stopped = False
        self._chance = context.network.chance
        self._request_ids = 0
        self._connecting = False
        self._reconnect: asyncio.TimerHandle | None = None
        """When it connects again, if that is planned."""
        self.patience = 1
        """How many times as long as usual it waits before it connects again."""
        self.connect()

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self.loop.name

    def connect(self) -> None:
        """Connect, unless that is under way."""
        if self.peer is None and not self._connecting and not self.stopped:
            self._connecting = True
            self.loop.create_task(self._connect())

    def stop(self) -> None:
        """Leave for good."""
        self.stopped = True
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection."""
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.close()

    def request_id(self) -> int:
        """A request id that was not used yet."""
        self._request_ids += 1
        return self._request_ids

    def say(self, *frames: bytes) -> None:
        """Send frames, if there is a connection."""
        if self.peer is not None:
            self.peer.say(b"".join(frames))

    def again(self, work: Callable[[], None]) -> None:
        """Do ``work`` after a while."""
        self.loop.call_later(self._chance.uniform(*RECONNECT_S), work)

    def reconnect(self) -> None:
        """Connect after a while, or earlier if that is planned. Two plans would become four with the next failure."""
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
        """The broker has greeted."""
        if self.peer is not None or self.stopped:
            peer.close()
            return
        self.peer = peer
        self.opened()

    def lost(self, peer: Peer) -> None:
        """The connection is gone."""
        if self.peer is peer:
            self.peer = None
            self.closed()
            self.reconnect()
        elif self.peer is None:
            self.reconnect()

    def heard(self, peer: Peer, frame: Frame) -> None:
        """A command came."""
        if peer is self.peer:
            self.take(frame)

    def opened(self) -> None:
        """There is a connection."""
        raise NotImplementedError

    def closed(self) -> None:
        """There is none any more."""
        raise NotImplementedError

    def take(self, frame: Frame) -> None:
        """Deal with a command."""
        raise NotImplementedError
