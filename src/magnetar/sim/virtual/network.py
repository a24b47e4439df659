"""A virtual network with latency, broken connections and partitions; the bytes of a connection keep their order.

Bytes sent on a connection arrive in order, in pieces of any size. After the connection breaks, they never arrive, and
each end notices after its own delay. A partition holds bytes back until it heals or the connection breaks. The place of
a machine is its name up to the first dot, so that ``ewr.producer-1`` is at the same place as ``ewr``.
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
"""Bounds of the latency within one place, in seconds."""

FAR_S = (0.002, 0.06)
"""Bounds of the latency between two places, in seconds."""

SLOW_S = (0.2, 1.5)
"""The same for a slow connection between two places."""

CONNECT_TIMEOUT_S = 3.0
"""Seconds until a connection attempt to an unreachable place fails."""

NOTICE_S = (0.0, 2.0)
"""Bounds of the time until an end notices a broken connection, in seconds."""

SPLIT_CHANCE = 0.1
"""Probability that one write arrives in two pieces."""


def place_of(name: str) -> str:
    """Return the place of a machine."""
    return name.partition(".")[0]


class Network:
    """All connections and their faults."""

    def __init__(self, chance: Random, seen: Callable[[str, str, bytes], None]) -> None:
        """Draw latencies from ``chance``, and report received bytes to ``seen``."""
        self.chance = chance
        self.seen = seen
        self.cut: set[tuple[str, str]] = set()
        """Pairs of places (source, target) of which the target receives nothing from the source."""
        self.isolated: set[str] = set()
        """Machines that are isolated from all others."""
        self.slow: set[frozenset[str]] = set()
        """Pairs of places with slow connections."""
        self.connections: list[Connection] = []
        self._listeners: dict[tuple[str, int], Listener] = {}

    @property
    def is_disturbed(self) -> bool:
        """Return whether bytes are held back or slow somewhere."""
        return bool(self.cut or self.isolated or self.slow)

    # -- faults -----------------------------------------------------------------------------------------------------

    def partition(self, places: frozenset[str]) -> None:
        """Partition two places, until ``heal``."""
        one, other = sorted(places)
        self.cut |= {(one, other), (other, one)}

    def partition_one_way(self, source: str, target: str) -> None:
        """Block the direction from ``source`` to ``target``, until ``heal``."""
        self.cut.add((source, target))

    def isolate(self, machine: str) -> None:
        """Isolate a machine, until ``heal``."""
        self.isolated.add(machine)

    def heal(self) -> None:
        """Remove all partitions, and deliver the bytes that they held back."""
        self.cut.clear()
        self.isolated.clear()
        self.slow.clear()
        for connection in self.connections:
            connection.resume()

    def break_one(self) -> bool:
        """Break a random connection; return False if there is none."""
        living = self.living()
        if living:
            self.chance.choice(living).break_off()
        return bool(living)

    def break_all_of(self, loop: MachineLoop) -> None:
        """Break all connections of a machine; its peers notice later."""
        for connection in self.living():
            if loop in (connection.ends[0].loop, connection.ends[1].loop):
                connection.break_off()
        self._listeners = {key: each for key, each in self._listeners.items() if each.loop is not loop}

    def living(self) -> list[Connection]:
        """Return the unbroken connections."""
        self.connections = [connection for connection in self.connections if not connection.broken]
        return self.connections

    # -- operations of machines -------------------------------------------------------------------------------------

    def listen(self, loop: MachineLoop, factory: Callable[[], asyncio.Protocol], port: int) -> Any:
        """See Networked: the host name is the machine's name."""
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
        """Stop accepting connections."""
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether the direction between two machines is blocked."""
        if source in self.isolated or target in self.isolated:
            return True
        return (place_of(source), place_of(target)) in self.cut

    def delay_s(self, one: str, other: str) -> float:
        """Draw the latency of the next piece."""
        places = frozenset((place_of(one), place_of(other)))
        if len(places) == 1:
            return self.chance.uniform(*NEAR_S)
        return self.chance.uniform(*(SLOW_S if places in self.slow else FAR_S))


@dataclass
class Listener:
    """A replacement for ``asyncio.Server``."""

    network: Network
    loop: MachineLoop
    factory: Callable[[], asyncio.Protocol]
    key: tuple[str, int]

    @property
    def sockets(self) -> list[Listener]:
        """Return the listener itself as its socket."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """Return host and port."""
        return self.key

    def close(self) -> None:
        """Stop accepting connections."""
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
        """Connect the two ends."""
        self.network = network
        self.broken = False
        self.ends = (End(self, *client), End(self, *server))
        self.ends[0].peer, self.ends[1].peer = self.ends[1], self.ends[0]

    def open(self, future: asyncio.Future[asyncio.Transport]) -> None:
        """Notify both protocols; ``future`` is the client's."""
        client, server = self.ends

        def opened() -> None:
            if client.is_lost:  # an event loop reports no loss of a connection before it was made
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
        """Break the connection: later bytes are lost, and each end notices after its own delay."""
        if not self.broken:
            self.broken = True
            for end in self.ends:
                end.loop.call_later(self.network.chance.uniform(*NOTICE_S), end.lost)

    def resume(self) -> None:
        """Deliver the bytes that were held back."""
        for end in self.ends:
            end.loop.call_soon(end.resume)


class End(asyncio.Transport):
    """One end of a connection: the transport of the protocol there."""

    peer: End

    def __init__(self, connection: Connection, loop: MachineLoop, protocol: asyncio.Protocol) -> None:
        """Create an open end."""
        super().__init__()
        self.loop = loop
        self.protocol = protocol
        self._connection = connection
        self._closing = False
        self._lost = False
        self._arrives_at = 0.0
        """The arrival time of the newest piece sent."""
        self._under_way = 0
        """Number of bytes sent and not arrived."""
        self._high: int | None = None
        self._is_held_up = False
        self._reading = True
        self._held_back: list[bytes | None] = []
        """Received pieces that are not read; None is the end of the stream."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See BaseTransport: only the peer's name is available."""
        return (self.peer.loop.name, 0) if name == "peername" else default

    def is_closing(self) -> bool:
        """See BaseTransport."""
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """See WriteTransport."""
        del low
        self._high = high

    def get_write_buffer_size(self) -> int:
        """See WriteTransport: the number of bytes in flight."""
        return self._under_way

    def write(self, data: Any) -> None:
        """Send ``data``; no effect on a broken connection."""
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
        """Send the end of the stream after all data."""
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
        """Return whether this end has noticed the loss of the connection."""
        return self._lost

    def lost(self) -> None:
        """Notice the loss of the connection."""
        if not self._lost:
            self._lost = self._closing = True
            self._connection.broken = self._connection.broken or self.peer._lost  # noqa: SLF001 - the other end
            self.protocol.connection_lost(None)

    def resume(self) -> None:
        """Read the bytes that were held back, if possible."""
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
        """Pass a piece to the protocol, unless a partition or a paused reader holds it back."""
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
