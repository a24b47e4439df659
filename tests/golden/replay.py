"""The replay of a transcript: Magnetar gets the client's frames, and must send Apache Pulsar's.

A broker's real protocol, sessions, topics and cursors run on a manual loop with a store in memory; only sockets and
files are missing. Ledger ids in the client's frames are translated, those in the broker's are compared.
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
    """Magnetar's output differs from the transcript."""


class HandTransport(asyncio.Transport):
    """The broker's end of a connection that records the output."""

    def __init__(self, number: int) -> None:
        """Open connection ``number``."""
        super().__init__(extra={"peername": ("127.0.0.1", number)})
        self.heard: list[Frame] = []
        """The broker's frames that are not yet matched."""
        self.closed = False
        self._decoder = FrameDecoder()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Record the output."""
        self.heard += self._decoder.feed(bytes(data))

    def close(self) -> None:
        """Close the connection."""
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        """Return whether the connection is closed."""
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits; there is no buffer."""

    def get_write_buffer_size(self) -> int:
        """Return 0; there is no buffer."""
        return 0

    def pause_reading(self) -> None:
        """Ignore the pause, because back-pressure is not part of transcripts."""

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
        """Remove the received PINGs, which are in no transcript; return their number for the client's answers."""
        heard = self.transport.heard
        self.transport.heard = [frame for frame in heard if frame.command.type != pb.BaseCommand.PING]
        return len(heard) - len(self.transport.heard)

    def forget_more(self) -> None:
        """Remove commands that only Magnetar sends."""
        heard = self.transport.heard
        self.transport.heard = [frame for frame in heard if not is_more(frame.command, self.requests)]


class Replay:
    """One replay of a transcript."""

    def __init__(self, transcript: Transcript) -> None:
        """Start a broker with the transcript's settings and start time."""
        self._transcript = transcript
        self._cluster = Cluster("standalone", settings=dict(transcript.settings))
        self._cluster.store.life = Life("replayed", 1)
        self._cluster.loop.advance(transcript.started_at_ms / 1000 - self._cluster.clock.now())
        self._operator = HandOperator(self._cluster)
        self._server = Server(self._cluster.environment, self._cluster.domains)
        self._lines: dict[int, Line] = {}
        self._names = Names()

    def run(self) -> None:
        """Replay all events; raises DivergenceError with the first difference."""
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
        """Run ``work`` in the broker, with all its consequences."""
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
    """Raise DivergenceError if Magnetar's output differs from the transcript."""
    try:
        Replay(transcript).run()
    finally:
        HandLoop.close_all()
