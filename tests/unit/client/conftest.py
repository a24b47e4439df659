"""A broker with scripted responses, in threads."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import Position
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.frame import Frame
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    import ssl

Answer = Callable[[Frame], bytes | None]
"""Returns the response to a command; None closes the connection."""


class ScriptedBroker:
    """Responds like a broker, except for the commands in ``script``."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen; with a context, for TLS only."""
        self._tls = tls
        self.script: dict[int, Answer] = {}
        self.received: list[pb.BaseCommand] = []
        self._entry_ids = itertools.count()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "pulsar" if tls is None else "pulsar+ssl"
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._listen)

    def push(self, frame: bytes) -> None:
        """Send an unsolicited frame on the newest connection."""
        self._sockets[-1].sendall(frame)

    def drop(self) -> None:
        """Close the newest connection."""
        with contextlib.suppress(OSError):
            self._sockets[-1].shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for accepted in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for accepted in (self._listener, *self._sockets):
            accepted.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                if self._tls is not None:
                    try:
                        accepted = self._tls.wrap_socket(accepted, server_side=True)
                    except OSError:  # the client does not trust the certificate
                        accepted.close()
                        continue
                self._sockets.append(accepted)
                self._start(self._serve, accepted)

    def _serve(self, accepted: socket.socket) -> None:
        connection = Connection(Role.BROKER, now=0.0)
        with contextlib.suppress(OSError):
            while data := accepted.recv(65536):
                try:
                    frames = connection.receive(data, 0.0)
                except RemoteProtocolError:  # a client of TLS
                    accepted.shutdown(socket.SHUT_RDWR)
                    return
                for frame in frames:
                    self.received.append(frame.command)
                    answer = self.script.get(frame.command.type, self._answer)(frame)
                    if answer is None:
                        accepted.shutdown(socket.SHUT_RDWR)
                        return
                    if frame.command.type == pb.BaseCommand.CONNECT:
                        connection.connected()
                    accepted.sendall(answer)
                accepted.sendall(connection.take_output())
            accepted.shutdown(socket.SHUT_RDWR)  # a client of TLS waits for it

    def _answer(self, frame: Frame) -> bytes:
        command = frame.command
        answer = b""
        match command.type:
            case pb.BaseCommand.CONNECT:
                answer = commands.connected(server_version="Scripted", protocol_version=20, max_message_size=1000)
            case pb.BaseCommand.LOOKUP:
                answer = commands.lookup_response(
                    request_id=command.lookupTopic.request_id, broker_service_url="pulsar://owner:6650"
                )
            case pb.BaseCommand.GET_TOPICS_OF_NAMESPACE:
                namespace = command.getTopicsOfNamespace.namespace
                answer = commands.get_topics_of_namespace_response(
                    request_id=command.getTopicsOfNamespace.request_id,
                    topics=[f"persistent://{namespace}/a", f"persistent://{namespace}/b"],
                    topics_hash="",
                )
            case pb.BaseCommand.PRODUCER:
                answer = commands.producer_success(
                    request_id=command.producer.request_id,
                    producer_name=command.producer.producer_name,
                    last_sequence_id=41,
                    last_origin=Position(3, 4),
                )
            case pb.BaseCommand.CLOSE_PRODUCER:
                answer = commands.success(request_id=command.close_producer.request_id)
            case pb.BaseCommand.SEND:
                answer = self.receipt(frame)
        return answer

    def receipt(self, frame: Frame) -> bytes:
        """Return the receipt of a SEND, for the next entry of ledger 1."""
        return commands.send_receipt(
            producer_id=frame.command.send.producer_id,
            sequence_id=frame.command.send.sequence_id,
            position=Position(1, next(self._entry_ids)),
        )


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    scripted = ScriptedBroker()
    yield scripted
    scripted.close()


@pytest.fixture
def second_broker() -> Iterator[ScriptedBroker]:
    scripted = ScriptedBroker()
    yield scripted
    scripted.close()
