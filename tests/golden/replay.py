"""Replaying a transcript: Magnetar hears what the client said, and must say what Apache Pulsar had said.

A broker's own protocol, sessions, topics and cursors run on a hand-driven loop, over a store in memory; only sockets
and files are missing. The client's ids of ledgers are translated on the way in, the broker's compared on the way out.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.base.life import Life
from magnetar.broker.session.server import Server, ServerProtocol
from magnetar.sim.cluster import Cluster
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire import commands
from magnetar.wire.frame import Frame, FrameDecoder, encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.golden.comparison import Requests, difference, find, is_more
from tests.golden.differences import Names
from tests.golden.operators import HandOperator
from tests.golden.transcript import Left, Operated, Passed, Said, Side, event_text, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.golden.transcript import Event, Transcript


class DivergenceError(AssertionError):
    """Magnetar did not say what the transcript has."""


class HandTransport(asyncio.Transport):
    """The broker's end of a connection that leads nowhere: what is written can be looked at."""

    def __init__(self, number: int) -> None:
        """Connection ``number`` is open."""
        super().__init__(extra={"peername": ("127.0.0.1", number)})
        self.heard: list[Frame] = []
        """What the broker said and nobody has asked for."""
        self.closed = False
        self._decoder = FrameDecoder()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the broker says."""
        self.heard += self._decoder.feed(bytes(data))

    def close(self) -> None:
        """The broker ends the connection."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Whether the connection has ended."""
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever buffered."""

    def get_write_buffer_size(self) -> int:
        """Nothing is ever buffered."""
        return 0

    def pause_reading(self) -> None:
        """A client that has to wait is heard all the same: back-pressure is not a matter of frames."""

    resume_reading = pause_reading


class Line:
    """One client's connection to Magnetar."""

    def __init__(self, server: Server, number: int) -> None:
        """Connect."""
        self.requests = Requests()
        self.transport = HandTransport(number)
        self.protocol = ServerProtocol(server)
        self.protocol.connection_made(self.transport)

    def take_pings(self) -> int:
        """Forget the PINGs that came, which are in no transcript, and say how many: a client that lives answers."""
        heard = self.transport.heard
        self.transport.heard = [frame for frame in heard if frame.command.type != pb.BaseCommand.PING]
        return len(heard) - len(self.transport.heard)

    def forget_more(self) -> None:
        """Forget what only Magnetar says."""
        heard = self.transport.heard
        self.transport.heard = [frame for frame in heard if not is_more(frame.command, self.requests)]


class Replay:
    """One run of a transcript."""

    def __init__(self, transcript: Transcript) -> None:
        """Start a broker with the transcript's settings, when the transcript started."""
        self._transcript = transcript
        self._cluster = Cluster("standalone", settings=dict(transcript.settings))
        self._cluster.store.life = Life("replayed", 1)
        self._cluster.loop.advance(transcript.started_at_ms / 1000 - self._cluster.clock.now())
        self._operator = HandOperator(self._cluster)
        self._server = Server(self._cluster.environment, self._cluster.topics)
        self._lines: dict[int, Line] = {}
        self._names = Names()

    def run(self) -> None:
        """Play all events; raises DivergenceError naming the first that does not come out."""
        for number, event in enumerate(self._transcript.events):
            try:
                self._play(event)
            except DivergenceError as error:
                message = f"event {number}: {event_text(event)}\n{error}"
                raise DivergenceError(message) from None
        self._expect_silence()
        assert self._cluster.loop.problems == []

    def _play(self, event: Event) -> None:
        match event:
            case Said(Side.CLIENT, number, frame):
                self._hear(self._line(number), frame)
            case Said(Side.BROKER, number, frame):
                self._expect(self._line(number), frame)
            case Left(Side.CLIENT, number):
                self._line(number).transport.closed = True
                self._do(lambda: self._line(number).protocol.connection_lost(None))
            case Left(Side.BROKER, number):
                self._expect_end(self._line(number))
            case Operated(action, arguments):
                self._do(lambda: self._operator.operate(action, *arguments))
            case Passed(milliseconds):
                self._expect_silence()
                self._cluster.loop.advance(milliseconds / 1000)
                self._cluster.settle()

    def _line(self, number: int) -> Line:
        if number not in self._lines:
            self._lines[number] = Line(self._server, number)
        return self._lines[number]

    def _do(self, work: Callable[[], Any]) -> None:
        """Do something in the broker, and all that follows."""
        self._cluster.do(work)
        for line in tuple(self._lines.values()):
            line.forget_more()
            if line.take_pings() and not line.transport.closed:
                self._do(partial(line.protocol.data_received, commands.pong()))

    def _hear(self, line: Line, frame: Frame) -> None:
        if line.transport.closed:
            message = "Magnetar has closed the connection"
            raise DivergenceError(message)
        command = pb.BaseCommand()
        command.CopyFrom(frame.command)
        if command.type == pb.BaseCommand.PRODUCER:
            self._names.note_names_of_client(command.producer)
        try:
            self._names.translate(command)
        except KeyError as error:
            message = f"the client names {error}, which it was never told"
            raise DivergenceError(message) from error
        line.requests.note(command)
        self._do(lambda: line.protocol.data_received(encode_command(command, frame.body)))

    def _expect(self, line: Line, recorded: Frame) -> None:
        heard = line.transport.heard
        place = find(recorded.command, heard, line.requests)
        if place is None:
            message = f"Magnetar does not say that; it says {[name_of(frame.command) for frame in heard]}"
            raise DivergenceError(message)
        found = difference(self._names, recorded, heard.pop(place))
        if found is not None:
            raise DivergenceError(found)

    def _expect_end(self, line: Line) -> None:
        if not line.transport.closed:
            message = "Magnetar does not close the connection"
            raise DivergenceError(message)
        self._do(lambda: line.protocol.connection_lost(None))

    def _expect_silence(self) -> None:
        unasked = [str(frame.command) for line in self._lines.values() for frame in line.transport.heard]
        if unasked:
            message = f"Magnetar says more: {unasked}"
            raise DivergenceError(message)


def replay(transcript: Transcript) -> None:
    """Raise DivergenceError if Magnetar does not say what the transcript has."""
    try:
        Replay(transcript).run()
    finally:
        HandLoop.close_all()
