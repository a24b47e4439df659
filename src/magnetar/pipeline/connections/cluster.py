"""Connections to the brokers of one cluster, driven by a loop: dialled in threads, found again by lookup.

The service connection is kept up with backoff for as long as the session lives. Connections to other brokers of the
cluster are opened when a lookup names them. Nothing here blocks the loop.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import FRAME_SIZE_PADDING, MAX_MESSAGE_SIZE
from magnetar.client.blocking import RECEIVE_SIZE
from magnetar.client.options import LOOKUP_REDIRECTS_MAX
from magnetar.client.replies import lookup_answer, refusal_in, reply_to
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Backoff
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from magnetar.pipeline.connections.loop import Dialled, Loop, Timer
    from magnetar.wire.frame import Frame
    from magnetar.wire.proto import pulsar_api_pb2 as pb

RECONNECT = Backoff(limits.RECONNECT_INITIAL_SECONDS, limits.RECONNECT_MAX_SECONDS)
"""How long to wait before a cluster is dialled again."""

_PUMPS_MAX = limits.CHUNK_BYTES // RECEIVE_SIZE
"""Reads of one connection before the others have their turn: a chunk's worth."""


class BrokerConnection:
    """One connection; what is sent while the loop runs goes out before the loop waits again."""

    def __init__(self, session: ClusterSession, url: str) -> None:
        """Belong to ``session``; `dial` connects."""
        self.url = url
        self._session = session
        self._loop = session.loop
        self._connection: Dialled | None = None
        self._descriptor = -1
        self._dialling = False
        self._flush_due = False
        self._paused = False
        self._waiters: list[Callable[[str], None]] = []
        self._request_ids = itertools.count(1)
        self._requests: dict[int, tuple[Callable[[pb.BaseCommand | None], None], Timer]] = {}

    @property
    def up(self) -> bool:
        """Whether commands can be sent."""
        return self._connection is not None

    @property
    def is_foreign(self) -> bool:
        """Whether the broker is connected, and knows nothing of what Magnetar adds to the protocol."""
        return self._connection is not None and not self._connection.peer_is_magnetar

    @property
    def life(self) -> str:
        """The life of the broker's cluster; empty where that is not known."""
        return "" if self._connection is None else self._connection.peer_life

    @property
    def receipts_name_source(self) -> bool:
        """Whether receipts name an entry's position at the source (`Dialled.receipts_name_source`)."""
        return self._connection is not None and self._connection.receipts_name_source

    @property
    def frame_size_max(self) -> int:
        """Bytes of the largest frame that the broker takes."""
        largest = MAX_MESSAGE_SIZE if self._connection is None else self._connection.peer_max_message_size
        return largest + FRAME_SIZE_PADDING

    def dial(self, then: Callable[[str], None]) -> None:
        """Connect, and call ``then`` with an empty text, or with the reason why it was not possible."""
        if self.up:
            then("")
            return
        self._waiters.append(then)
        if not self._dialling:
            self._dialling = True
            self._loop.dial(self.url, self._dialled)

    def send(self, frame: bytes) -> None:
        """Send a frame soon; without effect when the connection is down, whose owner hears of that anyway."""
        if self._connection is not None:
            self._connection.send(frame)
            if not self._flush_due:
                self._flush_due = True
                self._loop.call_soon(self._flush)

    def close_consumer(self, number: int) -> None:
        """Give a consumer up, whatever the answer."""
        self.request(lambda request_id: commands.close_consumer(consumer_id=number, request_id=request_id))

    def close_producer(self, number: int) -> None:
        """Give a producer up, whatever the answer."""
        self.request(lambda request_id: commands.close_producer(producer_id=number, request_id=request_id))

    def request(
        self, build: Callable[[int], bytes], on_reply: Callable[[pb.BaseCommand | None], None] = lambda _: None
    ) -> None:
        """Send what ``build`` makes of a request id; ``on_reply`` gets the answer, or None when none comes in time.

        One slow request must not cost the others: that the peer is silent altogether is for keep-alive to notice.
        """
        request_id = next(self._request_ids)
        timer = self._loop.call_later(limits.REQUEST_TIMEOUT_SECONDS, lambda: self._answer(request_id, None))
        self._requests[request_id] = (on_reply, timer)
        if self.up:
            self.send(build(request_id))
        else:
            self._loop.call_soon(lambda: self._answer(request_id, None))

    def pause(self, *, paused: bool) -> None:
        """Receive nothing while ``paused``; the peer's keep-alive bounds how long that may be."""
        self._paused = paused
        if self._connection is not None:
            self._watch(self._connection)

    def close(self, reason: str) -> None:
        """Drop the connection; all requests are answered with None and the session is told."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._loop.unwatch(self._descriptor)
        connection.close()
        for request_id in list(self._requests):
            self._answer(request_id, None)
        self._session.lost(self, reason)

    def _dialled(self, connection: Dialled | None, reason: str) -> None:
        self._dialling = False
        if connection is not None and self._session.closed:
            connection.close()
            return
        self._connection = connection
        if connection is not None:
            self._descriptor = connection.fileno()
            self._watch(connection)
            self._loop.call_at(connection.next_tick_at, lambda: self._tick(connection))
        waiters, self._waiters = self._waiters, []
        for then in waiters:
            then(reason)

    def _ready(self) -> None:
        connection = self._connection
        if connection is None:
            return
        for _ in range(_PUMPS_MAX):
            try:
                frames = connection.pump(0)
            except (MagnetarError, OSError) as error:
                self.close(f"{self.url}: {error}")
                return
            for frame in frames:
                self._receive(frame)
            if not frames or self._connection is not connection:
                break
        self._flush()

    def _tick(self, connection: Dialled) -> None:
        """Keep the connection alive."""
        if self._connection is connection:
            self._ready()
            self._loop.call_at(connection.next_tick_at, lambda: self._tick(connection))

    def _flush(self) -> None:
        self._flush_due = False
        connection = self._connection
        if connection is None:
            return
        try:
            connection.flush()
        except (MagnetarError, OSError) as error:
            self.close(f"{self.url}: {error}")
            return
        self._watch(connection)

    def _watch(self, connection: Dialled) -> None:
        if self._paused:
            self._loop.unwatch(self._descriptor)
        else:
            self._loop.watch(self._descriptor, self._ready, write=connection.want_write)

    def _receive(self, frame: Frame) -> None:
        request_id = reply_to(frame.command)
        if request_id is None:
            self._session.listener.received(self, frame)
        else:
            self._answer(request_id, frame.command)

    def _answer(self, request_id: int, reply: pb.BaseCommand | None) -> None:
        on_reply, timer = self._requests.pop(request_id, (None, None))
        if on_reply is not None and timer is not None:
            timer.cancel()
            on_reply(reply)


class Listener(Protocol):
    """Who uses a session."""

    def cluster_up(self) -> None:
        """The cluster can be reached."""
        ...

    def cluster_down(self, reason: str) -> None:
        """The cluster cannot be reached; everything on its connections is gone."""
        ...

    def broker_lost(self, broker: BrokerConnection, reason: str) -> None:
        """One connection is gone; `cluster_down` follows if it was the service connection."""
        ...

    def received(self, broker: BrokerConnection, frame: Frame) -> None:
        """A command came that answers no request."""
        ...


class ClusterSession:
    """The connections to one cluster."""

    def __init__(self, loop: Loop, url: str, listener: Listener, rng: Random) -> None:
        """Reach the cluster at broker URL ``url`` once `start` is called."""
        self.loop = loop
        self.listener = listener
        self.closed = False
        self.service = BrokerConnection(self, url)
        self._rng = rng
        self._attempt = 0
        self._brokers = {url: self.service}

    def start(self) -> None:
        """Connect, and go on trying."""
        if not self.closed:
            self.service.dial(self._dialled)

    def lookup(self, topic: str, on_owner: Callable[[BrokerConnection | None, str], None]) -> None:
        """Find the broker that owns ``topic`` and connect to it; ``on_owner`` gets it, or None and a reason."""
        self._ask(self.service, topic, on_owner, authoritative=False, hops=0)

    def pause(self, *, paused: bool) -> None:
        """Receive nothing from any broker while ``paused``."""
        for broker in self._brokers.values():
            broker.pause(paused=paused)

    def close(self) -> None:
        """Drop all connections; the listener is told nothing more."""
        self.closed = True
        for broker in self._brokers.values():
            broker.close("closed")

    def lost(self, broker: BrokerConnection, reason: str) -> None:
        """Hear from a connection that it is gone."""
        if self.closed:
            return
        self.listener.broker_lost(broker, reason)
        if broker is self.service:
            self.listener.cluster_down(reason)
            self._redial()

    def _dialled(self, reason: str) -> None:
        if self.closed:
            return
        if reason:
            self.listener.cluster_down(reason)
            self._redial()
        else:
            self._attempt = 0
            self.listener.cluster_up()

    def _redial(self) -> None:
        self.loop.call_later(RECONNECT.delay(self._attempt, self._rng), self.start)
        self._attempt += 1

    def _ask(
        self,
        broker: BrokerConnection,
        topic: str,
        on_owner: Callable[[BrokerConnection | None, str], None],
        *,
        authoritative: bool,
        hops: int,
    ) -> None:
        """Send one LOOKUP and follow what it says."""

        def answered(reply: pb.BaseCommand | None) -> None:
            refusal = "no answer" if reply is None else refusal_in(reply)
            if reply is None or refusal is not None:
                on_owner(None, f"lookup of {topic}: {refusal}")
                return
            answer = lookup_answer(reply)
            if not answer.redirect:
                self._reach(answer.url, on_owner)
            elif hops == LOOKUP_REDIRECTS_MAX:
                on_owner(None, f"lookup of {topic}: more than {LOOKUP_REDIRECTS_MAX} redirects")
            else:
                self._reach(answer.url, lambda owner, reason: follow(owner, reason, authoritative=answer.authoritative))

        def follow(owner: BrokerConnection | None, reason: str, *, authoritative: bool) -> None:
            if owner is None:
                on_owner(None, reason)
            else:
                self._ask(owner, topic, on_owner, authoritative=authoritative, hops=hops + 1)

        broker.request(
            lambda request_id: commands.lookup(topic=topic, request_id=request_id, authoritative=authoritative),
            answered,
        )

    def _reach(self, url: str, on_owner: Callable[[BrokerConnection | None, str], None]) -> None:
        broker = self._brokers.setdefault(url, BrokerConnection(self, url))
        broker.dial(lambda reason: on_owner(None if reason else broker, reason))
