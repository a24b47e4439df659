"""Connection of one client: its producers and consumers, answers, and flow control."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import LinkHeldError, RequestError
from magnetar.base.limits import Limit
from magnetar.broker.dispatch.consumer import Consumer
from magnetar.broker.loop.closing import close_one
from magnetar.broker.loop.slices import taken_from
from magnetar.broker.resources.memory import Account
from magnetar.broker.session.transport import NO_SOCKET
from magnetar.security.principal import NOBODY
from magnetar.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.domains import Domains
    from magnetar.broker.environment import Environment
    from magnetar.broker.publish.interfaces import Producer
    from magnetar.broker.resources.token_bucket import PublishLimit
    from magnetar.broker.session.transport import Renewal, Transport
    from magnetar.security.peer_certificate import PeerCertificate
    from magnetar.wire.connection import Connection

log = structlog.get_logger(__name__)

CLOSED_PRODUCERS_MAX = 100_000
"""Producers closed by the broker that a connection remembers, some 100 bytes each; the oldest are forgotten."""


RATE_CHECK_MIN_S = 0.01
"""Minimum seconds for which a client that exceeds a publish rate is not read."""

RATE_CHECK_MAX_S = 1.0
"""Maximum seconds between two checks of an exceeded publish rate, which may be raised meanwhile."""


class Session:
    """The producers and consumers of one connection. Used on the event loop's thread."""

    has_connected = False
    """Whether CONNECT was answered with CONNECTED."""
    undelivered = 0
    """SENDs to non-persistent topics that are being distributed."""
    principal = NOBODY
    """Who the client is; NOBODY before CONNECTED, and if the broker does not authenticate. A renewal replaces it."""
    counted_role: str | None = None
    """Role for which the connection counts; None before CONNECTED, and if the broker does not authenticate."""
    peer_certificate: PeerCertificate | None = None
    """The verified certificate of the client; None without TLS, or if it has sent none."""
    renewal: Renewal | None = None
    """Renewal of the client's credentials; None before CONNECTED, and if they do not expire."""

    def __init__(self, environment: Environment, topics: Domains, transport: Transport, connection: Connection) -> None:
        """Create a session before its CONNECT."""
        self.environment = environment
        self.topics = topics
        self.connection = connection
        self.address = self.listener = ""
        self.is_writable = True
        """Whether the client reads its data; otherwise it gets no more messages."""
        self._unmade: deque[Callable[[], bytes]] = deque()
        """Large answers that wait until the client has read others."""
        self._is_reading = True
        """``readable`` when the socket last accepted data; more may have been written since."""
        self.producers: dict[int, Producer] = {}
        self.waiting: dict[int, Producer] = {}
        """Producers that wait for exclusive access; they may not publish."""
        self.consumers: dict[int, Consumer] = {}
        self.starting_producers: dict[int, object] = {}
        self.starting_consumers: dict[int, object] = {}
        """Waiting PRODUCER and SUBSCRIBE commands by id. CLOSE removes a command, which then has no effect."""
        self.schema_turn = asyncio.Lock()
        """Held while a schema of the client is checked."""
        self.seek_turn = asyncio.Lock()
        """Held by a seek of the client: a client with many seeks delays those of others by one at a time."""
        self.closed_producers: dict[int, float] = {}
        """Producers closed by the broker, with the times: SENDs in transit for them are ignored for a while."""
        self._transport: Transport = transport
        self._in_flight = 0
        self._in_flight_max = environment.config.maxPendingPublishRequestsPerConnection
        self._withheld = 0
        self._publishing = True
        """Whether further publishes are within the limit."""
        self._exceeded: dict[PublishLimit, None] = {}
        """Publish rates of topics that producers exceed."""
        self._held_back: asyncio.TimerHandle | None = None
        """The next check of these rates; None if there are none."""
        self._promising = True
        """Whether further withheld receipts are within the limit."""
        self._arriving = True
        """Whether there is memory for the arriving frame."""
        self.account = Account(environment.memory, self._frame_admitted)
        """Memory that the connection occupies."""
        self._caught_up = True
        """Whether all received frames are handled."""
        self.has_left = False
        """Whether the client has disconnected, and received messages and acknowledgements remain to be handled."""
        self._reading = True
        self._open = True
        self.tasks: set[asyncio.Task[None]] = set()
        """Requests that take longer than one turn."""
        self.liveness: asyncio.Event | None = None
        """Event that received frames set, once ``is_alive`` was called."""

    @property
    def client_version(self) -> str:
        """Version of the client, from CONNECT."""
        return self.connection.peer_version

    @property
    def is_open(self) -> bool:
        """Whether the connection is open."""
        return self._open

    # -- input --------------------------------------------------------------------------------------------------

    def closed(self) -> None:
        """Handle the end of the connection: remove its producers and consumers, in slices if there are many."""
        if not self._open:
            return
        self._open = False
        if self.liveness is not None:
            self.liveness.set()
        # The cycle of session and transport is broken here; the collector would free thousands in one turn.
        self._transport = NO_SOCKET
        if self._held_back is not None:
            self._held_back.cancel()
        if self.renewal is not None:
            self.renewal.cancel()
        if self.counted_role is not None:
            self.environment.connection_limits.left_role(self.counted_role)
        self.account.close()
        self._unmade.clear()
        self.is_writable = False
        if self.tasks:
            self.environment.sliced.start(object(), taken_from(deque(self.tasks)), _cancel)
        producers = *self.waiting.values(), *self.producers.values()
        consumers = tuple(self.consumers.values())
        self.waiting.clear()
        self.producers.clear()
        self.consumers.clear()
        for producer in producers:
            producer.topic.departures.begin()
        for consumer in consumers:
            consumer.subscription.topic.departures.begin()
        self.environment.sliced.start(self, taken_from(deque((*producers, *consumers))), self._leave)

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

    def write(self, data: bytes) -> None:
        """Send frames at the end of this turn; no effect after the connection is closed.

        Above the limit of unsent data, no message follows until then.
        """
        if self._open and data:
            if self.account.unsent.write(len(data)):
                self.is_writable = False
            self._transport.write(data)

    def write_in_turn(self, make: Callable[[], bytes]) -> None:
        """Send a frame that may be large, made when the client has read what was written before."""
        if self.is_writable and not self._unmade:
            self.write(make())
        else:
            self._unmade.append(make)

    def answer_error(self, request_id: int, error: RequestError) -> None:
        """Answer a request with ERROR."""
        self.environment.limit_hits.note(error)
        if isinstance(error, LinkHeldError):
            self.write(commands.link_held(request_id=request_id, message=str(error), pipeline=error.pipeline))
        else:
            self.write(commands.error(request_id=request_id, code=error.code, message=str(error)))

    def close_producer(self, producer: Producer) -> None:
        """Close a producer of the client, which looks the topic up again."""
        if self.producers.get(producer.options.producer_id) is producer:
            del self.producers[producer.options.producer_id]
            note_closed(self, producer.options.producer_id)
        elif self.waiting.get(producer.options.producer_id) is producer:
            del self.waiting[producer.options.producer_id]
        producer.topic.producers.remove(producer)
        self.write(commands.close_producer(producer_id=producer.options.producer_id))

    def close_consumer(self, consumer: Consumer, *, rests: bool = False) -> None:
        """Close a consumer of the client, which subscribes again, if its link rests when this is due."""
        self.forget_consumer(consumer)
        consumer.subscription.remove_consumer(consumer)
        if consumer.consumer_id not in self.consumers:  # otherwise the client uses this id for another consumer now
            self.write(commands.close_consumer(consumer_id=consumer.consumer_id, rests=rests))

    def forget_consumer(self, consumer: Consumer) -> None:
        """Ignore further commands of a consumer."""
        if self.consumers.get(consumer.consumer_id) is consumer:
            del self.consumers[consumer.consumer_id]

    def active_consumer_changed(self, consumer: Consumer, *, is_active: bool) -> None:
        """Inform a Failover consumer whether it is active."""
        self.write(commands.active_consumer_change(consumer_id=consumer.consumer_id, is_active=is_active))

    def disconnect(self) -> None:
        """Close the connection, because the client violated the protocol."""
        self._transport.close()

    # -- flow ---------------------------------------------------------------------------------------------------

    def publishes_started(self, count: int, size: int) -> None:
        """Add publishes of ``size`` bytes; at a limit, the socket is not read until half of them are done."""
        self._in_flight = in_flight = self._in_flight + count
        is_many = in_flight > self._in_flight_max
        if (not self.account.publish(size) or is_many) and self._publishing:
            self.environment.limit_hits.hit(Limit.PENDING_PUBLISHES if is_many else Limit.PUBLISH_BUFFER)
            self._publishing = False
            self._read_or_pause()

    def publishes_finished(self, count: int, size: int) -> None:
        """Remove publishes of ``size`` bytes, durable or failed."""
        self._in_flight -= count
        self.account.published(size)
        if self._publishing or not self.account.may_publish_again:
            return
        if self._in_flight <= self._in_flight_max // 2:
            self._publishing = True
            self._read_or_pause()

    def hold_back(self, limit: PublishLimit) -> None:
        """Do not read the client while a producer exceeds the publish rate of its topic."""
        self._exceeded[limit] = None
        if self._held_back is None:
            self._check_rates()

    def _check_rates(self) -> None:
        now = self.environment.clock.monotonic()
        waits = {limit: wait_s for limit in self._exceeded if (wait_s := limit.wait_s(now))}
        self._exceeded = dict.fromkeys(waits)
        self._held_back = None
        if waits and self._open:
            wait_s = min(max(*waits.values(), RATE_CHECK_MIN_S), RATE_CHECK_MAX_S)
            self._held_back = self.environment.loop.call_later(wait_s, self._check_rates)
        self._read_or_pause()

    def frame_arrived(self, held: int, missing: int) -> None:
        """Update the size of an unfinished frame; a large one is not read until there is memory for it."""
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
        """Change the number of withheld receipts; at the limit, the socket is not read until half of them are written.

        The limit is far above the messages that a client has in flight, so withheld receipts do not delay other
        producers of the connection.
        """
        self._withheld += count
        limit = self.environment.config.maxWithheldReceiptsPerConnection
        if self._withheld > limit or self._withheld <= limit // 2:
            if self._promising and self._withheld > limit:
                self.environment.limit_hits.hit(Limit.WITHHELD_RECEIPTS)
            self._promising = self._withheld <= limit
            self._read_or_pause()

    def writable(self, *, is_writable: bool) -> None:
        """Handle that the client stopped or resumed reading. Meanwhile it gets no messages and is not read."""
        if self._is_reading and not is_writable:
            is_own = self.account.unsent.size > self.environment.config.connectionSendBufferBytes
            self.environment.limit_hits.hit(Limit.SEND_BUFFER if is_own else Limit.SEND_BUFFERS)
        self._is_reading = is_writable
        self.is_writable = is_writable and self._open
        self._read_or_pause()
        while self.is_writable and self._unmade:
            self.write(self._unmade.popleft()())
        if self.is_writable:
            for topic in dict.fromkeys([consumer.subscription.topic for consumer in self.consumers.values()]):
                topic.notify()

    @property
    def is_held_back(self) -> bool:
        """Whether the client is not read because of a limit, so that its keep-alive is not seen."""
        return not (
            self._publishing and self._held_back is None and self._promising and self._arriving and self._caught_up
        )

    def caught_up(self, *, is_caught_up: bool) -> None:
        """Note whether all received frames are handled; if not, the client is not read."""
        if is_caught_up != self._caught_up:
            self._caught_up = is_caught_up
            self._read_or_pause()

    def _read_or_pause(self) -> None:
        reading = self.is_writable and not self.is_held_back
        if reading != self._reading:
            self._reading = self.account.is_read = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    async def is_alive(self) -> bool:
        """Return whether the client answers a PING in time, or is not read and cannot be heard; otherwise close it."""
        if not self._open:
            return False
        if self.liveness is None:
            self.liveness = asyncio.Event()
        self.liveness.clear()
        is_unheard = self.is_held_back
        self._transport.probe()
        try:
            timeout_s = self.environment.config.connectionLivenessCheckTimeoutMillis / 1000
            async with asyncio.timeout(timeout_s):
                await self.liveness.wait()
        except TimeoutError:
            if not (is_unheard or self.is_held_back):
                log.warning("dead_connection_dropped", address=self.address)
                self._transport.abort()
                self.closed()
        return self._open


def note_closed(session: Session, producer_id: int) -> None:
    """Remember that the broker closed a producer of the connection."""
    environment, closed = session.environment, session.closed_producers
    now = environment.clock.monotonic()
    closed.pop(producer_id, None)
    closed[producer_id] = now
    for oldest in tuple(islice(closed, 2)):  # at most two are removed for each added one
        if now - closed[oldest] > environment.config.keepAliveIntervalSeconds:
            del closed[oldest]
        elif len(closed) > CLOSED_PRODUCERS_MAX:
            environment.limit_hits.hit(Limit.CLOSED_PRODUCERS)
            del closed[oldest]


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
