"""One client's connection: its producers and consumers, what it is answered, and when it is not read."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.base.errors import LinkHeldError, RequestError
from magnetar.base.limits import Limit
from magnetar.broker.dispatch.consumer import Consumer
from magnetar.broker.loop.closing import close_one
from magnetar.broker.resources.memory import Account
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.broker.environment import Environment
    from magnetar.broker.publish.interfaces import Producer
    from magnetar.broker.topic.registry import TopicRegistry
    from magnetar.wire.connection import Connection

log = structlog.get_logger(__name__)

CLOSED_PRODUCERS_MAX = 100_000
"""Producers that the broker closed and that a connection remembers, some 100 bytes each; the oldest are forgotten."""


class Transport(Protocol):
    """What a session sends by."""

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...

    def probe(self) -> None:
        """Ask the client whether it is there."""
        ...

    def close(self) -> None:
        """Close the connection, behind what was written."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...

    def pause_reading(self) -> None:
        """Read nothing from the client for a while."""
        ...

    def resume_reading(self) -> None:
        """Read on."""
        ...


class _NoSocket:
    """What a session speaks to once its connection is gone."""

    def nothing(self) -> None:
        """Do nothing: nobody is there."""

    close = abort = probe = pause_reading = resume_reading = nothing

    def write(self, frame: bytes) -> None:
        """Drop what would be sent."""


_NO_SOCKET = _NoSocket()


class Session:
    """The producers and consumers of one connection. Everything happens on the event loop's thread."""

    def __init__(
        self, environment: Environment, topics: TopicRegistry, transport: Transport, connection: Connection
    ) -> None:
        """A session before its CONNECT."""
        self.environment = environment
        self.topics = topics
        self.connection = connection
        self.address = ""
        self.is_writable = True
        """Whether the client reads what it is sent; otherwise it gets no more messages."""
        self._is_reading = True
        """The same, as it was when the socket last took what was written: more may have been written since."""
        self.producers: dict[int, Producer] = {}
        self.waiting: dict[int, Producer] = {}
        """Producers that wait for exclusive access; they may not publish."""
        self.consumers: dict[int, Consumer] = {}
        self.starting_producers: dict[int, object] = {}
        self.starting_consumers: dict[int, object] = {}
        """By id, the PRODUCER or SUBSCRIBE that waits for something. CLOSE takes it out; then it has no effect."""
        self.closed_producers: dict[int, float] = {}
        """Producers that the broker closed, with when: SENDs on the wire for them are ignored for a while."""
        self._transport: Transport = transport
        self._in_flight = 0
        self._withheld = 0
        self._publishing = True
        """Whether the publishes in flight leave room for more."""
        self._promising = True
        """Whether the receipts that are withheld do."""
        self._arriving = True
        """Whether there is memory for the frame that is arriving."""
        self.account = Account(environment.memory, self._frame_admitted)
        """What the connection makes the broker hold."""
        self._caught_up = True
        """Whether all that has arrived is handled."""
        self.has_left = False
        """Whether the client is gone, and what it has published and acknowledged is still to be handled."""
        self._reading = True
        self._open = True
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that take longer than a turn of the loop."""
        self._liveness: asyncio.Event | None = None

    @property
    def client_version(self) -> str:
        """What the client called itself in CONNECT."""
        return self.connection.peer_version

    @property
    def is_open(self) -> bool:
        """Whether the connection still stands."""
        return self._open

    # -- input --------------------------------------------------------------------------------------------------

    def heard(self) -> None:
        """The client said something: it is alive."""
        if self._liveness is not None:
            self._liveness.set()

    def closed(self) -> None:
        """The connection is gone, and with it every producer and consumer: few at once, many in slices."""
        if not self._open:
            return
        self._open = False
        # Two objects that refer to each other are freed by the collector of cycles only, thousands in one turn.
        self._transport = _NO_SOCKET
        self.account.close()
        self.is_writable = False
        for task in self.tasks:
            task.cancel()
        producers = *self.waiting.values(), *self.producers.values()
        consumers = tuple(self.consumers.values())
        self.waiting.clear()
        self.producers.clear()
        self.consumers.clear()
        for producer in producers:
            producer.topic.departures.begin()
        for consumer in consumers:
            consumer.subscription.topic.departures.begin()
        self.environment.sliced.start(self, (*producers, *consumers), self._leave)

    def _leave(self, member: Producer | Consumer) -> None:
        loop = self.environment.loop
        if isinstance(member, Consumer):
            departures, leave = member.subscription.topic.departures, member.subscription.remove_consumer
            close_one(loop, self.address, f"consumer {member.name}", partial(leave, member))
        else:
            departures, remove = member.topic.departures, member.topic.producers.remove
            close_one(loop, self.address, f"producer {member.options.name}", partial(remove, member))
        departures.end()

    # -- output -------------------------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Send a frame; nothing happens once the connection is gone."""
        if self._open:
            self._transport.write(frame)

    def answer_error(self, request_id: int, error: RequestError) -> None:
        """Answer a request with ERROR."""
        self.environment.limit_hits.note(error)
        if isinstance(error, LinkHeldError):
            self.write(commands.link_held(request_id=request_id, message=str(error), pipeline=error.pipeline))
        else:
            self.write(commands.error(request_id=request_id, code=error.code, message=str(error)))

    def close_producer(self, producer: Producer) -> None:
        """Tell the client that its producer ended here; it looks the topic up again."""
        if self.producers.get(producer.options.producer_id) is producer:
            del self.producers[producer.options.producer_id]
            self._note_closed(producer.options.producer_id)
        elif self.waiting.get(producer.options.producer_id) is producer:
            del self.waiting[producer.options.producer_id]
        producer.topic.producers.remove(producer)
        self.write(commands.close_producer(producer_id=producer.options.producer_id))

    def _note_closed(self, producer_id: int) -> None:
        now, keep_s = self.environment.clock.monotonic(), self.environment.config.keepAliveIntervalSeconds
        closed = self.closed_producers
        closed.pop(producer_id, None)
        closed[producer_id] = now
        for oldest in tuple(islice(closed, 2)):  # one comes, and two may go
            if now - closed[oldest] > keep_s:
                del closed[oldest]
            elif len(closed) > CLOSED_PRODUCERS_MAX:
                self.environment.limit_hits.hit(Limit.CLOSED_PRODUCERS)
                del closed[oldest]

    def close_consumer(self, consumer: Consumer) -> None:
        """Tell the client that its consumer ended here; it subscribes again."""
        self.forget_consumer(consumer)
        consumer.subscription.remove_consumer(consumer)
        if consumer.consumer_id not in self.consumers:  # else the client has another one of this id by now
            self.write(commands.close_consumer(consumer_id=consumer.consumer_id))

    def forget_consumer(self, consumer: Consumer) -> None:
        """Take nothing from a consumer any more."""
        if self.consumers.get(consumer.consumer_id) is consumer:
            del self.consumers[consumer.consumer_id]

    def active_consumer_changed(self, consumer: Consumer, *, is_active: bool) -> None:
        """Tell a Failover consumer whether it is the one that receives."""
        self.write(commands.active_consumer_change(consumer_id=consumer.consumer_id, is_active=is_active))

    def disconnect(self) -> None:
        """Close the connection: the client broke a rule that has no answer."""
        self._transport.close()

    # -- flow ---------------------------------------------------------------------------------------------------

    def publishes_started(self, count: int, size: int) -> None:
        """Count publishes of ``size`` bytes in; past a limit the socket is not read until half of them are done."""
        self._in_flight += count
        has_room = self.account.publish(size)
        is_many = self._in_flight > self.environment.config.maxPendingPublishRequestsPerConnection
        if self._publishing and (is_many or not has_room):
            self.environment.limit_hits.hit(Limit.PENDING_PUBLISHES if is_many else Limit.PUBLISH_BUFFER)
            self._publishing = False
            self._read_or_pause()

    def publishes_finished(self, count: int, size: int) -> None:
        """Count publishes of ``size`` bytes out, durable or not."""
        self._in_flight -= count
        self.account.published(size)
        if self._publishing or not self.account.may_publish_again:
            return
        if self._in_flight <= self.environment.config.maxPendingPublishRequestsPerConnection // 2:
            self._publishing = True
            self._read_or_pause()

    def frame_arrived(self, held: int, missing: int) -> None:
        """Note what there is of an unfinished frame; a large one that does not fit is not read until it does."""
        account = self.account
        if held == account.frame_held and missing == account.frame_missing:
            return
        may_arrive = account.arrived(held, missing)
        if may_arrive != self._arriving:
            if not may_arrive:
                self.environment.limit_hits.hit(Limit.PUBLISH_BUFFER)
            self._arriving = may_arrive
            self._read_or_pause()

    def _frame_admitted(self) -> None:
        self._arriving = True
        self._read_or_pause()

    def receipts_withheld(self, count: int) -> None:
        """Count receipts that wait, in or out; past the limit the socket is not read until half of them are written.

        The limit is far beyond what a client has in flight: what waits here costs others on this connection nothing.
        """
        self._withheld += count
        limit = self.environment.config.maxWithheldReceiptsPerConnection
        if self._withheld > limit or self._withheld <= limit // 2:
            if self._promising and self._withheld > limit:
                self.environment.limit_hits.hit(Limit.WITHHELD_RECEIPTS)
            self._promising = self._withheld <= limit
            self._read_or_pause()

    def writable(self, *, is_writable: bool) -> None:
        """The client stopped to read, or reads again: until it does it is sent no message and heard no more."""
        if self._is_reading and not is_writable:
            is_own = self.account.unsent.size > self.environment.config.connectionSendBufferBytes
            self.environment.limit_hits.hit(Limit.SEND_BUFFER if is_own else Limit.SEND_BUFFERS)
        self._is_reading = is_writable
        self.is_writable = is_writable and self._open
        self._read_or_pause()
        if self.is_writable:
            for topic in dict.fromkeys([consumer.subscription.topic for consumer in self.consumers.values()]):
                topic.notify()

    @property
    def is_held_back(self) -> bool:
        """Whether the client is not read because of what it has under way; it may say nothing meanwhile."""
        return not (self._publishing and self._promising and self._arriving and self._caught_up)

    def caught_up(self, *, is_caught_up: bool) -> None:
        """All that has arrived is handled, or it is not: then no more of it is read."""
        if is_caught_up != self._caught_up:
            self._caught_up = is_caught_up
            self._read_or_pause()

    def written(self, size: int) -> None:
        """Count ``size`` bytes that are sent at the end of this turn; with too much, no message follows until then."""
        if self._open and self.account.unsent.write(size):
            self.is_writable = False

    def _read_or_pause(self) -> None:
        reading = self.is_writable and not self.is_held_back
        if reading != self._reading:
            self._reading = self.account.is_read = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    async def is_alive(self) -> bool:
        """Whether the client answers a PING within ``connectionLivenessCheckTimeoutMillis``; a dead one is dropped."""
        if not self._open:
            return False
        if self._liveness is None:
            self._liveness = asyncio.Event()
        self._liveness.clear()
        self._transport.probe()
        try:
            timeout_s = self.environment.config.connectionLivenessCheckTimeoutMillis / 1000
            async with asyncio.timeout(timeout_s):
                await self._liveness.wait()
        except TimeoutError:
            log.warning("dead_connection_dropped", address=self.address)
            self._transport.abort()
            self.closed()
            return False
        return self._open
