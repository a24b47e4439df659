"""A connection to a broker on a plain socket, for code without an event loop, such as Spark's executors.

Requests wait for their answer; everything else does not. To drive several connections from one ``selectors`` loop,
register each (it has a ``fileno``) for reading, and for writing while ``want_write``; when it is ready, and at the
latest at ``next_tick_at``, call ``pump(0)``.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import RequestError, ServerError
from magnetar.client.options import DEFAULT_OPTIONS, LOOKUP_REDIRECTS_MAX, ClientOptions, address_of
from magnetar.client.replies import LookupAnswer, lookup_answer, refusal_in, reply_to, too_many_redirects
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role, State

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from magnetar.wire.frame import Frame
    from magnetar.wire.proto import pulsar_api_pb2 as pb

RECEIVE_SIZE = 64 * 1024
"""Bytes read from the socket at a time; one pump reads no more, so that no connection holds up the others."""

SEND_BUFFERS_MAX = 256
"""Frames handed to the system at a time; it takes at most 1024 (``IOV_MAX``)."""


class BlockingConnection:
    """One connection, used from one thread at a time.

    After any error the connection is of no more use than to be closed.
    """

    def __init__(self, url: str, transport: socket.socket, options: ClientOptions) -> None:
        """Belong to a connected socket; use ``connect``."""
        self.url = url
        self._options = options
        self._socket = transport
        self._wire = Connection(
            Role.CLIENT,
            frame_size_max=options.frame_size_max,
            keep_alive_interval_s=options.keep_alive_interval_s,
            now=time.monotonic(),
        )
        self._request_ids = itertools.count(1)
        self._unsent: deque[bytes | memoryview] = deque()
        # Frames that came while a request waited for its answer.
        self._aside: list[Frame] = []

    @classmethod
    def connect(
        cls,
        url: str,
        timeout_s: float = DEFAULT_OPTIONS.connect_timeout_s,
        options: ClientOptions = DEFAULT_OPTIONS,
    ) -> Self:
        """Connect to ``pulsar://host:port`` and finish the handshake.

        Raises OSError (TimeoutError among them) when the broker cannot be reached in time, RequestError when it
        refuses us, RemoteProtocolError when it does not speak the protocol, ConfigurationError for another URL.
        """
        deadline = time.monotonic() + timeout_s
        transport = socket.create_connection(address_of(url), timeout_s)
        connection = cls(url, transport, options)
        try:
            transport.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport.settimeout(0.0)
            connection._shake_hands(deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()

    @property
    def peer_version(self) -> str:
        """What the broker calls itself: ``Magnetar …``, or Apache Pulsar's ``Pulsar Server …``."""
        return self._wire.peer_version

    @property
    def peer_is_magnetar(self) -> bool:
        """Whether the broker knows what Magnetar adds to the protocol."""
        return self._wire.peer_is_magnetar

    @property
    def peer_life(self) -> str:
        """The life of the broker's cluster; empty where the broker names none."""
        return self._wire.peer_life

    @property
    def peer_max_message_size(self) -> int:
        """Bytes of the largest entry that the broker takes."""
        return self._wire.peer_max_message_size

    @property
    def receipts_name_source(self) -> bool:
        """Whether receipts of replicated entries name their position at the source instead of the sequence id.

        Apache Pulsar does so from 4.0.2 on, if we offered it (``ClientOptions.replicator``).
        """
        return self._options.replicator and self._wire.peer_features.supports_repl_dedup_by_lid_and_eid

    @property
    def next_tick_at(self) -> float:
        """When ``pump`` must have been called, on ``time.monotonic``, for the connection to be kept alive."""
        return self._wire.next_tick_at

    @property
    def want_write(self) -> bool:
        """Whether there is something to send that the system did not take yet."""
        return bool(self._unsent)

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        """Queue a frame; ``flush`` and ``pump`` send it."""
        assert frame, "an empty frame would never count as sent"
        self._unsent.append(frame)

    def flush(self) -> None:
        """Send as much as the system takes without waiting; raises OSError when the connection is lost."""
        while self._unsent:
            try:
                sent = self._socket.sendmsg(list(itertools.islice(self._unsent, SEND_BUFFERS_MAX)))
            except BlockingIOError:
                return
            self._sent(sent)

    def pump(self, timeout_s: float) -> list[Frame]:
        """Send what waits and return the frames that came, none when nothing comes within ``timeout_s``.

        0 does not wait at all. Raises OSError when the connection is lost, RemoteProtocolError when the broker breaks
        the protocol, and PeerSilentError when it fell silent.
        """
        if self._aside:
            frames, self._aside = self._aside, []
            return frames
        return self._receive(time.monotonic() + timeout_s)

    def next_request_id(self) -> int:
        """Return a request id that ``request`` does not use, for requests that are sent without waiting."""
        return next(self._request_ids)

    def request(self, build: Callable[[int], bytes]) -> pb.BaseCommand:
        """Send what ``build`` makes of a request id, and wait for the answer; other frames are kept for ``pump``.

        Raises RequestError when the broker refuses, TimeoutError when it does not answer in time, and as ``pump``.
        """
        request_id = next(self._request_ids)
        deadline = time.monotonic() + self._options.request_timeout_s
        self.send(build(request_id))
        answer: pb.BaseCommand | None = None
        while answer is None:
            frames = self._receive(deadline)
            if not frames and time.monotonic() >= deadline:
                message = f"{self.url} did not answer within {self._options.request_timeout_s:g} s"
                raise TimeoutError(message)
            for frame in frames:
                if answer is None and reply_to(frame.command) == request_id:
                    answer = frame.command
                else:
                    self._aside.append(frame)
        refusal = refusal_in(answer)
        if refusal is not None:
            raise refusal
        return answer

    def lookup(self, topic: str) -> str:
        """Return the URL of the broker that owns ``topic``; follows redirects. Raises as ``request``, ``connect``."""
        answer = self._ask_owner(topic, authoritative=False)
        for _ in range(LOOKUP_REDIRECTS_MAX):
            if not answer.redirect:
                return answer.url
            with self.connect(answer.url, self._options.connect_timeout_s, self._options) as broker:
                answer = broker._ask_owner(topic, authoritative=answer.authoritative)  # noqa: SLF001 - our own
        raise too_many_redirects(topic, LOOKUP_REDIRECTS_MAX)

    def topics_of_namespace(self, namespace: str) -> list[str]:
        """Return the full names of a namespace's persistent topics, partitions included; raises as ``request``."""
        answer = self.request(
            lambda request_id: commands.get_topics_of_namespace(request_id=request_id, namespace=namespace),
        )
        return list(answer.getTopicsOfNamespaceResponse.topics)

    def close(self) -> None:
        """Close the socket; what was not sent is lost."""
        self._wire.closed()
        with contextlib.suppress(OSError):
            self._socket.close()

    def _shake_hands(self, deadline: float) -> None:
        """Say CONNECT and wait for CONNECTED."""
        self.send(
            commands.connect(client_version=self._options.client_version, feature_flags=self._options.feature_flags)
        )
        while self._wire.state is not State.CONNECTED:
            frames = self._receive(deadline)
            if not frames and time.monotonic() >= deadline:
                message = f"{self.url} did not finish the handshake in time"
                raise TimeoutError(message)
            for index, frame in enumerate(frames):
                if frame.command.HasField("connected"):
                    self._aside += frames[index + 1 :]
                    return
                raise refusal_in(frame.command) or RequestError(
                    ServerError.AuthenticationError,
                    f"{self.url} asks for an authentication that is not supported",
                )

    def _receive(self, deadline: float) -> list[Frame]:
        """Send what waits and return the frames that came until ``deadline``, as soon as there are any."""
        while True:
            now = time.monotonic()
            frames = self._read(now)
            # After reading: a caller who was away for long finds the peer's PONG in the socket, not its silence.
            self._wire.on_tick(now)
            if output := self._wire.take_output():
                self.send(output)
            self.flush()
            if frames or now >= deadline:
                return frames
            self._wait(min(deadline, self._wire.next_tick_at) - now)

    def _read(self, now: float) -> list[Frame]:
        """Read once, without waiting."""
        try:
            data = self._socket.recv(RECEIVE_SIZE)
        except BlockingIOError:
            return []
        if not data:
            message = f"connection to {self.url} was closed by the broker"
            raise ConnectionError(message)
        return self._wire.receive(data, now)

    def _wait(self, timeout_s: float) -> None:
        """Wait until the socket can be read, or written when there is something to write."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        poll.poll(max(0.0, timeout_s) * 1000)

    def _sent(self, count: int) -> None:
        """Forget the first ``count`` bytes of what waits to be sent."""
        while count:
            first = self._unsent.popleft()
            if count < len(first):
                self._unsent.appendleft(memoryview(first)[count:])
                return
            count -= len(first)

    def _ask_owner(self, topic: str, *, authoritative: bool) -> LookupAnswer:
        answer = self.request(
            lambda request_id: commands.lookup(topic=topic, request_id=request_id, authoritative=authoritative),
        )
        return lookup_answer(answer)
