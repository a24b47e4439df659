"""A recording proxy for frames."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from magnetar.wire.frame import FrameDecoder, encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.golden.transcript import Left, Passed, Said, Side
from tests.kit.child import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from magnetar.wire.frame import Frame
    from tests.golden.transcript import Event

T = TypeVar("T")

SILENCE_MS = 1500
"""Minimum milliseconds of silence that are recorded; shorter ones depend on the machine's speed."""

READ_BYTES = 1 << 16

NOT_RECORDED = frozenset({pb.BaseCommand.PING, pb.BaseCommand.PONG})
"""Keep-alive frames, which depend on the time only."""


class Journal:
    """Events in the order of their recording, from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now; ``clock`` is in seconds."""
        self.events: list[Event] = []
        self._clock = clock
        self._last_at = self._passed_until = clock()
        self._lock = threading.Lock()

    def note(self, event: Event) -> None:
        """Add an event, after a long silence if there was one."""
        with self._lock:
            now = self._clock()
            if (now - self._last_at) * 1000 >= SILENCE_MS:
                self.events.append(Passed(round((now - self._passed_until) * 1000)))
                self._passed_until = now
            self._last_at = now
            self.events.append(event)


@dataclass
class _Connection:
    number: int
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to break the connection."""
    ended: bool = False
    """Whether one side has closed; later output of the other side is not recorded."""


class RecordingProxy:
    """Carries frames between clients and one broker in a separate thread, and records each before it passes it on.

    So events are recorded after their causes. Responses to LOOKUP are changed to the proxy's address, so that clients
    stay.
    """

    def __init__(self, broker_url: str, journal: Journal) -> None:
        """Create the proxy without starting it."""
        self.service_url = ""
        self._broker = urlsplit(broker_url)
        self._journal = journal
        self._numbers = itertools.count(1)
        self._served: set[asyncio.Task[None]] = set()
        self._connections: list[_Connection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recording proxy")

    def __enter__(self) -> Self:
        """Listen on a free port."""
        self._thread.start()
        self._listener = self._wait_for(asyncio.start_server(self._accept, LOOPBACK, 0))
        self.service_url = f"pulsar://{LOOPBACK}:{self._listener.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop after all clients have disconnected."""
        self._wait_for(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """Break every connection; the broker, and the recording, see a disconnected client."""
        self._wait_for(self._cut())

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _cut(self) -> None:
        for connection in self._connections:
            connection.cut.set()
        await asyncio.gather(*tuple(self._served))

    async def _close(self) -> None:
        self._listener.close()
        await asyncio.gather(*self._served)
        await self._listener.wait_closed()

    async def _accept(self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        connection = _Connection(next(self._numbers))
        self._connections.append(connection)
        broker_reader, broker_writer = await asyncio.open_connection(self._broker.hostname, self._broker.port)
        client = asyncio.create_task(self._carry(Side.CLIENT, connection, client_reader, broker_writer))
        broker = asyncio.create_task(self._carry(Side.BROKER, connection, broker_reader, client_writer))
        cut = asyncio.create_task(connection.cut.wait())
        done, _ = await asyncio.wait((client, broker, cut), return_when=asyncio.FIRST_COMPLETED)
        self._journal.note(Left(Side.BROKER if done == {broker} else Side.CLIENT, connection.number))
        connection.ended = True
        client_writer.close()
        broker_writer.close()
        cut.cancel()
        await asyncio.gather(client, broker)

    async def _carry(
        self, side: Side, connection: _Connection, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        """Carry frames from ``side`` until it closes."""
        decoder = FrameDecoder()
        with contextlib.suppress(ConnectionError):
            while data := await source.read(READ_BYTES):
                for frame in decoder.feed(data):
                    target.write(self._recorded(side, connection, frame))

    def _recorded(self, side: Side, connection: _Connection, frame: Frame) -> bytes:
        """Record a frame, and return it as it is passed on."""
        if frame.command.type == pb.BaseCommand.LOOKUP_RESPONSE and frame.command.lookupTopicResponse.brokerServiceUrl:
            frame.command.lookupTopicResponse.brokerServiceUrl = self.service_url
        if frame.command.type not in NOT_RECORDED and not connection.ended:
            self._journal.note(Said(side, connection.number, frame))
        return encode_command(frame.command, frame.body)
