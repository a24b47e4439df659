"""What attackers share: hostile acts in a loop, frames that are pumped, and connections that are held open."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from typing import TYPE_CHECKING

from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import ClosedByPeerError, RawConnection, Value, command, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.hostile.catalogue import Target

PAUSE_S = 0.02
"""Pause after an act that the broker refused, so that the loop of the attacker does not spin."""

RECEIVE_BYTES = 1 << 18
SELECT_S = 0.05

_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


def repeatedly(target: Target, act: Callable[[int], None], *, count_max: int | None = None) -> int:
    """Call ``act`` with 0, 1, 2 … until the deadline or ``count_max``; return the number of calls.

    A connection that the broker closes, and an answer that does not come, end one call only.
    """
    count = 0
    while target.is_time_left and (count_max is None or count < count_max):
        try:
            act(count)
        except (OSError, ClosedByPeerError):
            time.sleep(PAUSE_S)
        count += 1
    return count


def pump(target: Target, connection: RawConnection, chunks: Iterable[bytes], *, reads: bool = True) -> int:
    """Send ``chunks`` until the deadline and discard the answers; return the number of chunks that were sent whole.

    With ``reads`` False the answers stay in the socket. Ends early when the broker closes the connection.
    """
    sent, pending = 0, memoryview(b"")
    source: Iterator[bytes] = iter(chunks)
    connection.socket.setblocking(False)
    try:
        while target.is_time_left:
            if not pending:
                chunk = next(source, None)
                if chunk is None:
                    break
                pending = memoryview(chunk)
            readable, writable, _ = select.select(
                [connection.socket] if reads else [], [connection.socket], [], SELECT_S
            )
            if readable and not connection.socket.recv(RECEIVE_BYTES):
                break
            if writable:
                with contextlib.suppress(BlockingIOError):
                    pending = pending[connection.socket.send(pending) :]
                sent += not pending
    except OSError:
        pass
    finally:
        connection.socket.settimeout(None)
    return sent


def pump_again(target: Target, open_one: Callable[[], RawConnection], chunk: bytes, *, reads: bool = True) -> int:
    """Pump the same chunk without end, on a new connection whenever the broker closes one."""

    def flood() -> int:
        with open_one() as connection:
            return pump(target, connection, _endless(chunk), reads=reads)

    sent = 0
    while target.is_time_left:
        try:
            sent += flood()
        except (OSError, ClosedByPeerError):
            time.sleep(PAUSE_S)
    return sent


def _endless(chunk: bytes) -> Iterator[bytes]:
    while True:
        yield chunk


def connect(target: Target) -> RawConnection:
    """Open a connection and shake hands."""
    return RawConnection.connected(target.service_url)


def hold(target: Target, connections: Iterable[RawConnection]) -> None:
    """Keep connections open until the deadline, without reading or writing; then close them."""
    held = list(connections)
    time.sleep(target.seconds_left)
    for connection in held:
        connection.close()


def answer_pings(target: Target, connections: Iterable[RawConnection]) -> None:
    """Keep connections alive until the deadline: discard what comes, and answer keep-alive probes."""
    open_ones = {connection.socket.fileno(): connection for connection in connections}
    poll = select.poll()
    for descriptor in open_ones:
        poll.register(descriptor, select.POLLIN)
    while target.is_time_left and open_ones:
        for descriptor, _ in poll.poll(SELECT_S * 1000):
            try:
                open_ones[descriptor].gather(0)
            except (OSError, ClosedByPeerError):
                poll.unregister(descriptor)
                open_ones.pop(descriptor).close()


def open_many(target: Target, count: int, open_one: Callable[[], RawConnection]) -> list[RawConnection]:
    """Open up to ``count`` connections before the deadline; the broker may refuse some."""
    opened: list[RawConnection] = []
    for _ in range(count):
        if not target.is_time_left:
            break
        try:
            opened.append(open_one())
        except (OSError, ClosedByPeerError):
            time.sleep(PAUSE_S)
    return opened


def hold_many(target: Target, count: int, open_one: Callable[[], RawConnection]) -> int:
    """Open up to ``count`` connections and hold them; return how many there were."""
    opened = open_many(target, count, open_one)
    hold(target, opened)
    return len(opened)


def reset(connection: RawConnection) -> None:
    """Close a connection with RST in place of FIN."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    connection.close()


def publishing(target: Target, topic: str = "t", **fields: Value) -> RawConnection:
    """Open a connection with producer 1 on a topic of the attack."""
    connection = connect(target)
    connection.create_producer(target.topic(topic), **fields)
    return connection


def consuming(target: Target, topic: str = "t", subscription: str = "s", **fields: Value) -> RawConnection:
    """Open a connection with consumer 1 on a topic of the attack, Shared unless ``fields`` say otherwise."""
    connection = connect(target)
    connection.subscribe(target.topic(topic), subscription, **fields)
    return connection


def fill(target: Target, count: int, size: int = 100, topic: str = "t") -> list[pb.MessageIdData]:
    """Publish ``count`` messages of ``size`` bytes; return their ids from the receipts."""
    found: list[pb.MessageIdData] = []
    with publishing(target, topic) as connection:
        payload = bytes(size)
        for start in range(0, count, 500):
            ids = range(start, min(count, start + 500))
            connection.socket.sendall(b"".join(send_frame(entry(payload, each), each) for each in ids))
            found += [connection.expect("SEND_RECEIPT").message_id for _ in ids]
    return found


def send_frame(body: bytes, sequence_id: int = 0, producer_id: int = 1, **fields: Value) -> bytes:
    """Return the frame of a SEND with this entry."""
    return encode_command(command("SEND", producer_id=producer_id, sequence_id=sequence_id, **fields), body)


def sends(count: int, size: int = 100) -> bytes:
    """Return the frames of SENDs with payloads of this size."""
    return b"".join(send_frame(entry(bytes(size), each), each) for each in range(count))


def subscribe(topic: str, consumer_id: int, subscription: str = "s", **fields: Value) -> bytes:
    """Return the frame of a SUBSCRIBE, Shared unless ``fields`` say otherwise."""
    options = {"subType": pb.CommandSubscribe.Shared, "request_id": consumer_id, **fields}
    return frame("SUBSCRIBE", topic=topic, subscription=subscription, consumer_id=consumer_id, **options)


def flood_consumers(
    target: Target, consumers: Iterable[bytes], open_producer: Callable[[], RawConnection], data: bytes
) -> int:
    """Let one connection bring consumers, and others publish the same frames without end."""
    with connect(target) as connection:
        pump(target, connection, consumers)
        return pump_again(target, open_producer, data)


def frame(name: str, **fields: Value) -> bytes:
    """Return the frame of a command."""
    return encode_command(command(name, **fields))
