"""A virtual network: connections that are slow, break, and are cut in two; bytes in between keep their order.

What is sent on a connection arrives in order, in pieces of any size, or never: when the connection breaks, each end
learns of it in its own time. A partition holds back what is under way until it is healed, or until the connection
breaks. Who is host ``a`` is what comes before the first dot of its machine's name, so that ``ewr.producer-1`` is at the
same place as ``ewr``.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from magnetar.sim.virtual.scheduler import MachineLoop

NEAR_S = (0.0001, 0.002)
"""How long a piece is under way at one place."""

FAR_S = (0.002, 0.06)
"""How long it is under way between two places."""

SLOW_S = (0.2, 1.5)
"""The same between two places while the connection between them is bad."""

CONNECT_TIMEOUT_S = 3.0
"""How long it takes to find out that a place cannot be reached."""

NOTICE_S = (0.0, 2.0)
"""How long each end takes to notice that its connection broke."""

SPLIT_CHANCE = 0.1
"""How often what was written at once arrives in two pieces."""


def place_of(name: str) -> str:
    """Where a machine is."""
    return name.partition(".")[0]


class Network:
    """All connections there are, and what is wrong with them."""

    def __init__(self, chance: Random, seen: Callable[[str, str, bytes], None]) -> None:
        """Be as fast as ``chance`` has it; ``seen`` is told what arrives where."""
        self.chance = chance
        self.seen = seen
        self.cut: set[tuple[str, str]] = set()
        """From which place to which nothing gets through."""
        self.isolated: set[str] = set()
        """Machines that are cut off from all others."""
        self.slow: set[frozenset[str]] = set()
        """Pairs of places between which everything takes long."""
        self.connections: list[Connection] = []
        self._listeners: dict[tuple[str, int], Listener] = {}

    # -- what is wrong ----------------------------------------------------------------------------------------------

    def partition(self, places: frozenset[str]) -> None:
        """Let nothing through between two places, until ``heal``."""
        one, other = sorted(places)
        self.cut |= {(one, other), (other, one)}

    def partition_one_way(self, source: str, target: str) -> None:
        """Let nothing through from one place to another, until ``heal``; the other way is open."""
        self.cut.add((source, target))

    def isolate(self, machine: str) -> None:
        """Let nothing through to and from a machine, until ``heal``."""
        self.isolated.add(machine)

    def heal(self) -> None:
        """Let everything through, and what was held back first."""
        self.cut.clear()
        self.isolated.clear()
        self.slow.clear()
        for connection in self.connections:
            connection.resume()

    def break_one(self) -> bool:
        """Break a connection; False: there is none."""
        living = self.living()
        if living:
            self.chance.choice(living).break_off()
        return bool(living)

    def break_all_of(self, loop: MachineLoop) -> None:
        """A machine is gone: its peers will notice."""
        for connection in self.living():
            if loop in (connection.ends[0].loop, connection.ends[1].loop):
                connection.break_off()
        self._listeners = {key: each for key, each in self._listeners.items() if each.loop is not loop}

    def living(self) -> list[Connection]:
        """The connections that are not broken."""
        self.connections = [connection for connection in self.connections if not connection.broken]
        return self.connections

    # -- what machines do -------------------------------------------------------------------------------------------

    def listen(self, loop: MachineLoop, factory: Callable[[], asyncio.Protocol], port: int) -> Any:
        """See Networked: the host's name is the machine's."""
        listener = Listener(self, loop, factory, (loop.name, port))
        self._listeners[loop.name, port] = listener
        return listener

    def connect(
        self, loop: MachineLoop, protocol: asyncio.Protocol, host: str, port: int
    ) -> asyncio.Future[asyncio.Transport]:
        """See Networked."""
        future: asyncio.Future[asyncio.Transport] = loop.create_future()
        delay_s = self.delay_s(loop.name, host)

        def arrive() -> None:
            listener = self._listeners.get((host, port))
            if future.done():
                return
            if listener is None or not listener.loop.alive:
                future.set_exception(ConnectionRefusedError(f"nobody listens at {host}:{port}"))
                return
            connection = Connection(self, (loop, protocol), (listener.loop, listener.factory()))
            self.connections.append(connection)
            connection.open(future)

        def time_out() -> None:
            if not future.done():
                future.set_exception(TimeoutError(f"{host} does not answer"))

        if self.is_cut(loop.name, host) or self.is_cut(host, loop.name):
            loop.call_later(CONNECT_TIMEOUT_S, time_out)
        else:
            loop.call_later(delay_s, arrive)
        return future

    def stop_listening(self, key: tuple[str, int], listener: Listener) -> None:
        """Accept nothing more."""
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def is_cut(self, source: str, target: str) -> bool:
        """Whether nothing gets through from one machine to another."""
        if source in self.isolated or target in self.isolated:
            return True
        return (place_of(source), place_of(target)) in self.cut

    def delay_s(self, one: str, other: str) -> float:
        """How long the next piece is under way."""
        places = frozenset((place_of(one), place_of(other)))
        if len(places) == 1:
            return self.chance.uniform(*NEAR_S)
        return self.chance.uniform(*(SLOW_S if places in self.slow else FAR_S))


@dataclass
class Listener:
    """What stands for an ``asyncio.Server``."""

    network: Network
    loop: MachineLoop
    factory: Callable[[], asyncio.Protocol]
    key: tuple[str, int]

    @property
    def sockets(self) -> list[Listener]:
        """It is its own socket."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """Host and port."""
        return self.key

    def close(self) -> None:
        """Accept nothing more."""
        self.network.stop_listening(self.key, self)

    async def wait_closed(self) -> None:
        """Return at once."""


class Connection:
    """Two ends, and the bytes between them."""

    def __init__(
        self,
        network: Network,
        client: tuple[MachineLoop, asyncio.Protocol],
        server: tuple[MachineLoop, asyncio.Protocol],
    ) -> None:
        """Join the two ends."""
        self.network = network
        self.broken = False
        self.ends = (End(self, *client), End(self, *server))
        self.ends[0].peer, self.ends[1].peer = self.ends[1], self.ends[0]

    def open(self, future: asyncio.Future[asyncio.Transport]) -> None:
        """Tell both ends; ``future`` is the client's."""
        client, server = self.ends

        def opened() -> None:
            if client.is_lost:  # no event loop tells a protocol of the end before the beginning
                if not future.done():
                    future.set_exception(ConnectionResetError("the connection was lost while it was opened"))
                return
            client.protocol.connection_made(client)
            if not future.done():
                future.set_result(client)
            else:
                client.abort()

        server.loop.call_soon(server.protocol.connection_made, server)
        client.loop.call_later(self.network.delay_s(client.loop.name, server.loop.name), opened)

    def break_off(self) -> None:
        """Deliver nothing that is sent from now on; each end notices in its own time."""
        if not self.broken:
            self.broken = True
            for end in self.ends:
                end.loop.call_later(self.network.chance.uniform(*NOTICE_S), end.lost)

    def resume(self) -> None:
        """Deliver what was held back."""
        for end in self.ends:
            end.loop.call_soon(end.resume)


class End(asyncio.Transport):
    """One end of a connection, as the protocol there sees it."""

    peer: End

    def __init__(self, connection: Connection, loop: MachineLoop, protocol: asyncio.Protocol) -> None:
        """An open end."""
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self._connection = connection
        self._closing = False
        self._lost = False
        self._arrives_at = 0.0
        """When the newest piece that was sent arrives."""
        self._under_way = 0
        """Bytes that were sent and have not arrived."""
        self._high: int | None = None
        self._is_held_up = False
        self._reading = True
        self._held_back: list[bytes | None] = []
        """What has arrived here and is not read; None is the end of it."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See BaseTransport: only the peer's name is known."""
        return (self.peer.loop.name, 0) if name == "peername" else default

    def is_closing(self) -> bool:
        """See BaseTransport."""
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See WriteTransport."""
        del low
        self._high = high

    def get_write_buffer_size(self) -> int:
        """See WriteTransport: what has not arrived."""
        return self._under_way

    def write(self, data: Any) -> None:
        """Send ``data``; without effect once the connection is broken."""
        if self._closing or self._lost or not data:
            return
        chance, data = self._connection.network.chance, bytes(data)
        if len(data) > 1 and chance.random() < SPLIT_CHANCE:
            at = chance.randrange(1, len(data))
            pieces = [data[:at], data[at:]]
        else:
            pieces = [data]
        for piece in pieces:
            self._send(piece)

    def close(self) -> None:
        """Send the end behind everything that was written."""
        if not self._closing:
            self._closing = True
            self._send(None)
            self.loop.call_soon(self.lost)

    def abort(self) -> None:
        """Break the connection."""
        self._closing = True
        self._connection.broken = True
        self.loop.call_soon(self.lost)
        self.peer.loop.call_later(self._connection.network.delay_s(self.loop.name, self.peer.loop.name), self.peer.lost)

    def pause_reading(self) -> None:
        """See ReadTransport."""
        self._reading = False

    def resume_reading(self) -> None:
        """See ReadTransport."""
        self._reading = True
        self.loop.call_soon(self.resume)

    @property
    def is_lost(self) -> bool:
        """Whether this end has noticed that the connection is no more."""
        return self._lost

    def lost(self) -> None:
        """Notice that the connection is no more."""
        if not self._lost:
            self._lost = self._closing = True
            self._connection.broken = self._connection.broken or self.peer._lost  # noqa: SLF001 - the other end
            self.protocol.connection_lost(None)

    def resume(self) -> None:
        """Read what was held back, if that is possible now."""
        held_back, self._held_back = self._held_back, []
        for piece in held_back:
            self._arrive(piece)

    def _send(self, piece: bytes | None) -> None:
        if self._connection.broken:
            return
        network, peer = self._connection.network, self.peer
        delay_s = network.delay_s(self.loop.name, peer.loop.name)
        self._arrives_at = max(self._arrives_at, self.loop.time() + delay_s)
        self._under_way += len(piece or b"")
        if self._high is not None and self._under_way > self._high and not self._is_held_up:
            self._is_held_up = True
            self.loop.call_soon(self.protocol.pause_writing)
        peer.loop.call_at(self._arrives_at, peer._arrive, piece)  # noqa: SLF001 - the other end

    def _arrive(self, piece: bytes | None) -> None:
        """Hand a piece to the protocol, unless it is held back on the way or nobody reads it."""
        if self._lost or (self._closing and piece is not None):
            return
        network = self._connection.network
        if self._held_back or not self._reading or network.is_cut(self.peer.loop.name, self.loop.name):
            self._held_back.append(piece)
            return
        if piece is None:
            self.lost()
            return
        self.peer._taken(len(piece))  # noqa: SLF001 - the other end
        network.seen(self.peer.loop.name, self.loop.name, piece)
        self.protocol.data_received(piece)

    def _taken(self, count: int) -> None:
        self._under_way -= count
        if self._is_held_up and self._high is not None and self._under_way <= self._high // 4:
            self._is_held_up = False
            self.loop.call_soon(self.protocol.resume_writing)
