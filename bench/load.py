"""The raw load: prebuilt frames on plain sockets, so that the broker is measured instead of the client.

One thread drives one or two connections. Receipts and messages are counted on arrival, without waiting for each.
"""

from __future__ import annotations

import contextlib
import gc
import select
import time
from array import array
from typing import TYPE_CHECKING

from bench.frames import PONG, PRODUCER_ID, PRODUCER_NAME, Answers, acknowledgement, flow
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Iterator, Sequence

READ_BYTES = 1 << 20
REFILL_SHARE = 4
"""The window is refilled when 1/REFILL_SHARE of it is free, so that frames arrive in bulk, as from a busy client."""

ANSWER_TIMEOUT_S = 60.0
SUBSCRIPTION = "bench"


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Disable Python's garbage collector during a measurement."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Publisher:
    """A producer with a window that limits the entries without a receipt."""

    def __init__(self, url: str, topic: str, window: int, tls: ssl.SSLContext | None = None) -> None:
        """Connect, with ``tls`` if it is given, and create the producer."""
        self._raw = RawConnection.connected(url, tls=tls)
        self._answers = Answers(pb.BaseCommand.SEND_RECEIPT)
        self.socket = self._raw.socket
        self.window = window
        look_up(self._raw, topic)
        self._raw.create_producer(topic, PRODUCER_ID, producer_name=PRODUCER_NAME)
        self.socket.settimeout(ANSWER_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def publish(self, frames: Sequence[bytes]) -> float:
        """Publish all frames at full speed; return the seconds until the last receipt."""
        sent = received = 0
        started = time.monotonic()
        while received < len(frames):
            room = min(self.window - (sent - received), len(frames) - sent)
            if room and (room >= self.window // REFILL_SHARE or sent + room == len(frames)):
                self.send(frames[sent : sent + room])
                sent += room
            received += self.receipts()
        return time.monotonic() - started

    def publish_paced(self, frames: Sequence[bytes], rate: float) -> array[float]:
        """Publish ``rate`` frames per second; return the milliseconds from each due time to the receipt.

        The due time instead of the send time, so that a stall of the broker counts for all delayed entries.
        """
        interval = 1e9 / rate
        milliseconds = array("d")
        sent = 0
        started = time.monotonic_ns()
        while len(milliseconds) < len(frames):
            now = time.monotonic_ns()
            due = min(int((now - started) / interval) + 1, len(frames))
            if due > sent:
                self.send(frames[sent:due])
                sent = due
            next_due = started + sent * interval if sent < len(frames) else now + ANSWER_TIMEOUT_S * 1e9
            pause_s = max(next_due - time.monotonic_ns(), 0) / 1e9
            if not select.select([self.socket], [], [], pause_s)[0]:
                if sent == len(frames):
                    raise _silence(pause_s, f"{len(milliseconds)} of {sent} receipts")
                continue
            receipts = self.receipts()
            now = time.monotonic_ns()
            first = len(milliseconds)
            milliseconds.extend((now - started - number * interval) / 1e6 for number in range(first, first + receipts))
        return milliseconds

    def send(self, frames: Sequence[bytes]) -> None:
        """Send frames at once."""
        self.socket.sendall(b"".join(frames))

    def receipts(self) -> int:
        """Read once; return the number of receipts."""
        count = len(self._answers.feed(read(self.socket)))
        answer_pings(self.socket, self._answers)
        return count


class Consumer:
    """A Shared consumer with individual acknowledgements."""

    def __init__(self, url: str, topic: str, permits: int) -> None:
        """Connect and subscribe at the earliest position; ``start`` grants ``permits``."""
        self._raw = RawConnection.connected(url)
        self._answers = Answers(pb.BaseCommand.MESSAGE)
        self._permits = permits
        self._used = 0
        self.socket = self._raw.socket
        look_up(self._raw, topic)
        self._raw.subscribe(topic, SUBSCRIPTION)
        self.socket.settimeout(ANSWER_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def start(self) -> None:
        """Grant the first permits."""
        self.socket.sendall(flow(self._permits))

    def consume(self, count: int) -> float:
        """Receive and acknowledge ``count`` messages from now on; return the seconds."""
        started = time.monotonic()
        self.start()
        received = 0
        while received < count:
            received += self.take()
        return time.monotonic() - started

    def take(self) -> int:
        """Read once, and acknowledge the received messages individually; return their number."""
        commands = self._answers.feed(read(self.socket))
        answer = [acknowledgement(command) for command in commands]
        self._used += len(commands)
        if self._used >= self._permits // 2:  # as the official client does, when half of its queue is free
            answer.append(flow(self._used))
            self._used = 0
        if answer:
            self.socket.sendall(b"".join(answer))
        answer_pings(self.socket, self._answers)
        return len(commands)


def through(publisher: Publisher, consumer: Consumer, frames: Sequence[bytes]) -> float:
    """Publish all frames while they are consumed, at most a window ahead; return the seconds until the last message.

    Publishing waits for consumption, so the consumer stays at the end of the log.
    """
    sent = consumed = received = 0
    consumer.start()
    started = time.monotonic()
    sockets = (publisher.socket, consumer.socket)
    while consumed < len(frames) or received < len(frames):
        room = min(publisher.window - (sent - consumed), len(frames) - sent)
        if room and (room >= publisher.window // REFILL_SHARE or sent + room == len(frames)):
            publisher.send(frames[sent : sent + room])
            sent += room
        readable, _, _ = select.select(sockets, [], [], ANSWER_TIMEOUT_S)
        if not readable:
            raise _silence(ANSWER_TIMEOUT_S, f"{sent} sent, {received} receipts, {consumed} consumed")
        if publisher.socket in readable:
            received += publisher.receipts()
        if consumer.socket in readable:
            consumed += consumer.take()
    return time.monotonic() - started


def look_up(raw: RawConnection, topic: str) -> None:
    """Look up the topic's broker, as every client does first; Apache Pulsar loads the topic at the lookup."""
    raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic, authoritative=False)


def read(connection: socket.socket) -> bytes:
    """Read once; raises ConnectionError if the broker has closed, TimeoutError after a long silence."""
    data = connection.recv(READ_BYTES)
    if not data:
        text = "the broker closed the connection"
        raise ConnectionError(text)
    return data


def answer_pings(connection: socket.socket, answers: Answers) -> None:
    """Answer the broker's PINGs."""
    if answers.pings:
        connection.sendall(PONG * answers.pings)
        answers.pings = 0


def _silence(seconds: float, what: str) -> TimeoutError:
    return TimeoutError(f"no answer for {seconds:g} s; {what}")
