"""A connection to a broker on asyncio: requests with answers, and producers with receipts.

It ends once and for good: when the peer closes it, breaks the protocol or falls silent. Every request and every send
that waits then fails with the reason. Whether and when to connect again is the caller's decision.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Self, cast

from magnetar.base.errors import RemoteProtocolError, RequestError, ServerError
from magnetar.client.options import DEFAULT_OPTIONS, LOOKUP_REDIRECTS_MAX, ClientOptions, address_of
from magnetar.client.replies import LookupAnswer, lookup_answer, refusal_in, reply_to, too_many_redirects
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.base.position import Position


class Producer:
    """Publishes to one topic; receipts come in the order of the sends."""

    def __init__(self, connection: PulsarConnection, producer_id: int) -> None:
        """Belong to ``connection``, which sets the name when the broker admits the producer."""
        self.name = ""
        self.last_origin: Position | None = None
        self.failure: Exception | None = None
        self._connection = connection
        self._producer_id = producer_id
        self._sequence_ids = itertools.count()
        self._unacknowledged: deque[tuple[int, asyncio.Future[Position]]] = deque()
        self._ended = asyncio.Event()

    @property
    def unacknowledged(self) -> int:
        """How many sends wait for their receipt."""
        return len(self._unacknowledged)

    def send(self, entry: bytes, *, num_messages: int = 1, marker: bool = False) -> asyncio.Future[Position]:
        """Publish an entry; the future gives its position, EARLIEST for one that was dropped as a duplicate.

        The future raises RequestError when the broker refuses the entry, and what ended the producer when that comes
        first. Raises that at once when the producer has ended.
        """
        if self.failure is not None:
            raise self.failure
        sequence_id = next(self._sequence_ids)
        receipt: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        self._unacknowledged.append((sequence_id, receipt))
        frame = commands.send(
            producer_id=self._producer_id,
            sequence_id=sequence_id,
            entry=entry,
            num_messages=num_messages,
            marker=marker,
        )
        self._connection.write(frame)
        return receipt

    async def close(self) -> None:
        """Give the producer up, after the receipts of what was sent; does nothing when it has ended."""
        if self.failure is None:
            await self._connection.close_producer(self._producer_id)

    async def wait_ended(self) -> None:
        """Return when the producer has ended; ``failure`` says why."""
        await self._ended.wait()

    def admitted(self, success: pb.CommandProducerSuccess) -> None:
        """Take over what the broker says of the producer."""
        self.name = success.producer_name
        self._sequence_ids = itertools.count(success.last_sequence_id + 1)
        if success.HasField("last_origin_message_id"):
            self.last_origin = position_of(success.last_origin_message_id)

    def receipt(self, receipt: pb.CommandSendReceipt) -> None:
        """Settle the oldest send; raises RemoteProtocolError when the receipt is another's."""
        waiting = self._oldest(receipt.sequence_id)
        if not waiting.done():
            waiting.set_result(position_of(receipt.message_id))

    def refused(self, error: pb.CommandSendError) -> None:
        """Fail the oldest send; raises RemoteProtocolError when the refusal is another's."""
        waiting = self._oldest(error.sequence_id)
        if not waiting.done():
            waiting.set_exception(RequestError(ServerError(error.error), error.message))

    def end(self, failure: Exception) -> None:
        """Fail what waits and refuse what comes."""
        self.failure = failure
        for _, waiting in self._unacknowledged:
            if not waiting.done():
                waiting.set_exception(failure)
        self._unacknowledged.clear()
        self._ended.set()

    def _oldest(self, sequence_id: int) -> asyncio.Future[Position]:
        """Take the oldest send, which must have this sequence id."""
        if not self._unacknowledged or self._unacknowledged[0][0] != sequence_id:
            message = f"receipt for sequence id {sequence_id} of producer {self.name}, which is not the oldest sent"
            raise RemoteProtocolError(message)
        return self._unacknowledged.popleft()[1]


class PulsarConnection(asyncio.Protocol):
    """One connection, used from one event loop."""

    def __init__(self, url: str, options: ClientOptions) -> None:
        """Belong to a transport that is being opened; use ``open``."""
        self.url = url
        self.failure: Exception | None = None
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._wire = Connection(
            Role.CLIENT,
            frame_size_max=options.frame_size_max,
            keep_alive_interval_s=options.keep_alive_interval_s,
            now=self._loop.time(),
        )
        self._transport: asyncio.WriteTransport | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._request_ids = itertools.count(1)
        self._requests: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._producer_ids = itertools.count(1)
        self._producers: dict[int, Producer] = {}

    @classmethod
    async def open(cls, url: str, options: ClientOptions = DEFAULT_OPTIONS) -> Self:
        """Connect to ``pulsar://host:port`` and finish the handshake.

        Raises OSError (TimeoutError among them) when the broker cannot be reached in time, RequestError when it
        refuses us, RemoteProtocolError when it does not speak the protocol, ConfigurationError for another URL.
        """
        host, port = address_of(url)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(options.connect_timeout_s):
            _, connection = await loop.create_connection(lambda: cls(url, options), host, port)
            try:
                await connection._handshake  # noqa: SLF001 - our own
            except BaseException:
                connection.close()
                raise
        return connection

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
        """The life of the broker's cluster, in its written form; empty where the broker names none."""
        return self._wire.peer_life

    @property
    def peer_max_message_size(self) -> int:
        """Bytes of the largest entry that the broker takes."""
        return self._wire.peer_max_message_size

    async def request(self, build: Callable[[int], bytes]) -> pb.BaseCommand:
        """Send what ``build`` makes of a request id, and return the answer.

        Raises RequestError when the broker refuses, TimeoutError when it does not answer in time, and what ended the
        connection when that comes first.
        """
        if self.failure is not None:
            raise self.failure
        request_id = next(self._request_ids)
        reply: asyncio.Future[pb.BaseCommand] = self._loop.create_future()
        self._requests[request_id] = reply
        self.write(build(request_id))
        try:
            async with asyncio.timeout(self._options.request_timeout_s):
                return await reply
        finally:
            del self._requests[request_id]

    async def lookup(self, topic: str) -> str:
        """Return the URL of the broker that owns ``topic``; follows redirects. Raises as ``request`` and ``open``."""
        answer = await self._ask_owner(topic, authoritative=False)
        for _ in range(LOOKUP_REDIRECTS_MAX):
            if not answer.redirect:
                return answer.url
            broker = await type(self).open(answer.url, self._options)
            try:
                answer = await broker._ask_owner(topic, authoritative=answer.authoritative)  # noqa: SLF001 - our own
            finally:
                broker.close()
        raise too_many_redirects(topic, LOOKUP_REDIRECTS_MAX)

    async def create_producer(self, topic: str, name: str, metadata: Mapping[str, str] | None = None) -> Producer:
        """Create a producer, and with it the topic where that is allowed; raises as ``request``."""
        producer_id = next(self._producer_ids)
        # Known before the broker answers: it may close the producer right behind admitting it.
        producer = self._producers[producer_id] = Producer(self, producer_id)

        def build(request_id: int) -> bytes:
            return commands.producer(
                topic=topic,
                producer_id=producer_id,
                request_id=request_id,
                producer_name=name,
                metadata=metadata,
            )

        try:
            admitted = await self.request(build)
        except BaseException as error:
            self._producers.pop(producer_id, None)
            if not isinstance(error, RequestError) and self.failure is None:
                self.write(commands.close_producer(producer_id=producer_id, request_id=next(self._request_ids)))
            raise
        producer.admitted(admitted.producer_success)
        return producer

    async def close_producer(self, producer_id: int) -> None:
        """Close a producer of this connection; see ``Producer.close``."""
        await self.request(lambda request_id: commands.close_producer(producer_id=producer_id, request_id=request_id))
        self._end_producer(producer_id, ConnectionError("producer was closed"))

    def write(self, frame: bytes) -> None:
        """Send a frame; without effect when the connection has ended."""
        if self._transport is not None and frame:
            self._transport.write(frame)

    def close(self) -> None:
        """End the connection."""
        self._end(ConnectionError(f"connection to {self.url} was closed"))

    async def wait_ended(self) -> None:
        """Return when the connection has ended; ``failure`` says why."""
        await self._ended.wait()

    # --- called by asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is none by inheritance
        self._tick_timer = self._loop.call_at(self._wire.next_tick_at, self._tick)
        self.write(
            commands.connect(client_version=self._options.client_version, feature_flags=self._options.feature_flags)
        )

    def data_received(self, data: bytes) -> None:
        """Handle what came; whatever is wrong with it ends the connection."""
        if self.failure is not None:
            return
        try:
            for frame in self._wire.receive(data, self._loop.time()):
                self._handle(frame.command)
        except RemoteProtocolError as error:
            self._end(error)
        else:
            self.write(self._wire.take_output())

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        del exc
        self._end(ConnectionError(f"connection to {self.url} was lost"))

    # --- inside ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            self._wire.on_tick(self._loop.time())
        except RemoteProtocolError as error:
            self._end(error)
        else:
            self.write(self._wire.take_output())
            self._tick_timer = self._loop.call_at(self._wire.next_tick_at, self._tick)

    def _handle(self, command: pb.BaseCommand) -> None:
        """Give a command to the one it is for; commands for nobody, such as late answers, are dropped."""
        kind = command.type
        if kind == pb.BaseCommand.SEND_RECEIPT:
            producer = self._producers.get(command.send_receipt.producer_id)
            if producer is not None:
                producer.receipt(command.send_receipt)
        elif kind == pb.BaseCommand.SEND_ERROR:
            producer = self._producers.get(command.send_error.producer_id)
            if producer is not None:
                producer.refused(command.send_error)
        elif kind == pb.BaseCommand.CLOSE_PRODUCER:
            closed = RequestError(ServerError.ServiceNotReady, "the broker closed the producer")
            self._end_producer(command.close_producer.producer_id, closed)
        elif not self._handshake.done():
            self._finish_handshake(command)
        else:
            self._answer(command)

    def _finish_handshake(self, command: pb.BaseCommand) -> None:
        if command.type == pb.BaseCommand.CONNECTED:
            self._handshake.set_result(None)
        else:
            refusal = refusal_in(command) or RequestError(
                ServerError.AuthenticationError,
                f"{self.url} asks for an authentication that is not supported",
            )
            self._end(refusal)

    def _answer(self, command: pb.BaseCommand) -> None:
        reply = self._requests.get(reply_to(command) or 0)
        if reply is None or reply.done():
            return
        refusal = refusal_in(command)
        if refusal is None:
            reply.set_result(command)
        else:
            reply.set_exception(refusal)

    async def _ask_owner(self, topic: str, *, authoritative: bool) -> LookupAnswer:
        answer = await self.request(
            lambda request_id: commands.lookup(topic=topic, request_id=request_id, authoritative=authoritative),
        )
        return lookup_answer(answer)

    def _end_producer(self, producer_id: int, failure: Exception) -> None:
        producer = self._producers.pop(producer_id, None)
        if producer is not None:
            producer.end(failure)

    def _end(self, failure: Exception) -> None:
        """Fail everything that waits, once."""
        if self.failure is not None:
            return
        self.failure = failure
        self._wire.closed()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        waiters: list[asyncio.Future[Any]] = [self._handshake, *self._requests.values()]
        for waiting in waiters:
            if not waiting.done():
                waiting.set_exception(failure)
        for producer_id in list(self._producers):
            self._end_producer(producer_id, failure)
        self._ended.set()
