"""A client of the binary protocol, for commands that the official client never sends or hides."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from magnetar.wire.entries.entry import build_entry
from magnetar.wire.frame import Frame, FrameDecoder, encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

Part = Any
"""The body of a command, such as CommandSuccess; its type depends on the command's name."""

Value = Any
"""The value of a field of a command."""

ANSWER_TIMEOUT_S = 20.0
FRAME_SIZE_MAX = 5 * 1024 * 1024 + 10 * 1024
BROKER_REQUEST_ID = 2**64 - 1
"""The request id of unsolicited commands of a broker."""


def command(name: str, **fields: Value) -> pb.BaseCommand:
    """Return a command with this type name; a command's field number is its type number (protocol: Commands)."""
    number = pb.BaseCommand.Type.Value(name)
    field = pb.BaseCommand.DESCRIPTOR.fields_by_number[number]
    built = pb.BaseCommand(type=number)
    getattr(built, field.name).SetInParent()
    for key, value in fields.items():
        part = getattr(built, field.name)
        if hasattr(value, "DESCRIPTOR"):
            getattr(part, key).CopyFrom(value)
        elif isinstance(value, list):
            getattr(part, key).extend(value)
        else:
            setattr(part, key, value)
    return built


def part_of(frame: Frame) -> Part:
    """Return the body of the frame's command, such as its CommandSuccess."""
    return getattr(frame.command, pb.BaseCommand.DESCRIPTOR.fields_by_number[frame.command.type].name)


def name_of(frame: Frame) -> str:
    """Return the type name of the frame's command."""
    return pb.BaseCommand.Type.Name(frame.command.type)


def entry(
    payload: bytes, sequence_id: int = 0, producer_name: str = "raw", *, publish_time: int | None = None
) -> bytes:
    """Return an unbatched entry as a producer sends it; the default publish time is the current time."""
    published_ms = time.time_ns() // 1_000_000 if publish_time is None else publish_time
    metadata = pb.MessageMetadata(producer_name=producer_name, sequence_id=sequence_id, publish_time=published_ms)
    return build_entry(metadata, payload)


class ClosedByPeerError(Exception):
    """The peer closed the connection before an expected response."""


class RawConnection:
    """A connection to a broker, with the received frames. It answers PINGs."""

    def __init__(self, service_url: str, tls: ssl.SSLContext | None = None, source: str = "") -> None:
        """Open the socket without sending anything, with ``tls`` if it is given; ``source`` is an address to use."""
        address = urlsplit(service_url)
        self.socket = socket.create_connection(
            (address.hostname, address.port), ANSWER_TIMEOUT_S, (source, 0) if source else None
        )
        # As every client does; otherwise a small frame waits for the acknowledgement of the previous one.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=address.hostname)
        self._decoder = FrameDecoder(FRAME_SIZE_MAX)
        self._frames: list[Frame] = []
        self._request_id = 0

    def __enter__(self) -> Self:
        """Return the connection; the socket is closed at exit."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the socket."""
        self.close()

    @classmethod
    def connected(cls, service_url: str, protocol_version: int = 20, tls: ssl.SSLContext | None = None) -> Self:
        """Open the socket and perform the handshake."""
        connection = cls(service_url, tls)
        try:
            connection.send("CONNECT", client_version="raw", protocol_version=protocol_version, auth_method_name="none")
            connection.expect("CONNECTED")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, name: str, body: bytes = b"", **fields: Value) -> None:
        """Send one command; a SEND has headers and payload."""
        self.socket.sendall(encode_command(command(name, **fields), body))

    def request(self, name: str, answer: str, **fields: Value) -> Part:
        """Send a command with a new request id, and return the body of the ``answer``."""
        self._request_id += 1
        self.send(name, request_id=self._request_id, **fields)
        return self.expect(answer, lambda part: part.request_id == self._request_id)

    def decision(self, name: str, *answers: str, **fields: Value) -> Frame:
        """Send a command with a new request id, and return the first of its possible ``answers``."""
        self._request_id += 1
        self.send(name, request_id=self._request_id, **fields)
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            for index, frame in enumerate(self._frames):
                if name_of(frame) in answers and part_of(frame).request_id == self._request_id:
                    return self._frames.pop(index)
            if not self._receive(deadline):
                message = f"closed while waiting for one of {answers}"
                raise ClosedByPeerError(message)

    def expect(self, name: str, condition: Callable[[Part], bool] = lambda _part: True) -> Part:
        """Return the body of the next ``name`` command that meets ``condition``; earlier commands are kept.

        Raises TimeoutError or ClosedByPeerError with the received commands.
        """
        return part_of(self.expect_frame(name, condition))

    def expect_frame(self, name: str, condition: Callable[[Part], bool] = lambda _part: True) -> Frame:
        """Return the whole frame, with headers and payload, as ``expect``."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        checked = 0
        while True:
            for index in range(checked, len(self._frames)):
                frame = self._frames[index]
                if name_of(frame) == name and condition(part_of(frame)):
                    return self._frames.pop(index)
            checked = len(self._frames)
            try:
                is_open = self._receive(deadline)
            except TimeoutError:
                message = f"timed out while waiting for {name}; before that came {self._came()}"
                raise TimeoutError(message) from None
            if not is_open:
                message = f"closed while waiting for {name}; before that came {self._came()}"
                raise ClosedByPeerError(message)

    def _came(self) -> list[tuple[str, str]]:
        return [(name_of(frame), str(part_of(frame))) for frame in self._frames]

    def is_closed_by_peer(self, within_s: float = ANSWER_TIMEOUT_S) -> bool:
        """Return whether the peer closes the connection; commands before that are kept, and PINGs are answered."""
        deadline = time.monotonic() + within_s
        try:
            while self._receive(deadline):
                pass
        except TimeoutError:
            return False
        return True

    def received(self, name: str) -> list[Part]:
        """Remove and return the bodies of the received ``name`` commands."""
        taken = [frame for frame in self._frames if name_of(frame) == name]
        self._frames = [frame for frame in self._frames if name_of(frame) != name]
        return [part_of(frame) for frame in taken]

    def gather(self, within_s: float) -> list[Frame]:
        """Read once, for at most ``within_s``; remove and return all received frames.

        Raises ClosedByPeerError if the peer has closed the connection.
        """
        with contextlib.suppress(TimeoutError):
            if not self._receive(time.monotonic() + within_s):
                message = "closed while frames were gathered"
                raise ClosedByPeerError(message)
        return self.taken()

    def taken(self) -> list[Frame]:
        """Remove and return all received frames, without reading."""
        frames, self._frames = self._frames, []
        return frames

    def is_answering(self) -> bool:
        """Return whether the broker answers a PING."""
        self.send("PING")
        try:
            self.expect("PONG")
        except (ClosedByPeerError, TimeoutError):
            return False
        return True

    def create_producer(self, topic: str, producer_id: int = 1, **fields: Value) -> Part:
        """Create a producer and return its PRODUCER_SUCCESS."""
        return self.request("PRODUCER", "PRODUCER_SUCCESS", topic=topic, producer_id=producer_id, **fields)

    def publish(self, payload: bytes, producer_id: int = 1, sequence_id: int = 0) -> Part:
        """Send one entry and return its SEND_RECEIPT."""
        self.send("SEND", entry(payload, sequence_id), producer_id=producer_id, sequence_id=sequence_id)
        return self.expect("SEND_RECEIPT", lambda part: part.producer_id == producer_id)

    def subscribe(self, topic: str, subscription: str, consumer_id: int = 1, **fields: Value) -> None:
        """Subscribe; the defaults are type Shared and the earliest position."""
        defaults = {"subType": pb.CommandSubscribe.Shared, "initialPosition": pb.CommandSubscribe.Earliest}
        options = {**defaults, **fields}
        self.request("SUBSCRIBE", "SUCCESS", topic=topic, subscription=subscription, consumer_id=consumer_id, **options)

    def flow(self, permits: int, consumer_id: int = 1) -> None:
        """Grant permits."""
        self.send("FLOW", consumer_id=consumer_id, messagePermits=permits)

    def acknowledge(self, *ids: pb.MessageIdData, consumer_id: int = 1, cumulative: bool = False) -> Part:
        """Acknowledge with a request id, and return the ACK_RESPONSE."""
        ack_type = pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual
        return self.request("ACK", "ACK_RESPONSE", consumer_id=consumer_id, ack_type=ack_type, message_id=list(ids))

    def _receive(self, deadline: float) -> bool:
        """Read once from the socket; return False if the peer has closed it; raises TimeoutError after ``deadline``."""
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            return False
        if not data:
            return False
        for frame in self._decoder.feed(data):
            if name_of(frame) == "PING":
                with contextlib.suppress(ConnectionError):  # it may be shut down for writing
                    self.send("PONG")
            else:
                self._frames.append(frame)
        return True
