"""A connection to a broker: requests with answers, and the commands of its producers and consumers.

A connection ends once: when the peer closes it, violates the protocol or stops answering. All pending operations then
fail with the reason. The user of the connection decides whether and when to connect again.
"""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

from magnetar.base.errors import RemoteProtocolError, RequestError
from magnetar.base.limits import FRAME_SIZE_PADDING
from magnetar.base.position import EARLIEST, LATEST
from magnetar.base.tasks import start_task
from magnetar.client.consumer import Consumer
from magnetar.client.identity import Identity
from magnetar.client.options import DEFAULT_OPTIONS, ClientOptions, address_of
from magnetar.client.owners import Owners
from magnetar.client.producer import Producer
from magnetar.client.reading import Reading
from magnetar.client.replies import LookupAnswer, lookup_answer, refusal_in, reply_to
from magnetar.wire import commands
from magnetar.wire.connection import Connection, Role
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.client.owners import ConsumerEvents, ProducerEvents

    Metadata = Mapping[str, str] | None


class PulsarConnection(asyncio.Protocol):
    """One connection, used from one event loop.

    The caller chooses the numbers of producers and consumers. Frames written in one turn of the event loop are sent
    together at its end.
    """

    def __init__(self, url: str, options: ClientOptions) -> None:
        """Create the protocol of a transport that is being opened; use ``open``."""
        self.url = url
        self._identity = Identity(options)
        self.failure: Exception | None = None
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._wire = Connection(
            Role.CLIENT,
            frame_size_max=options.frame_size_max,
            keep_alive_interval_s=options.keep_alive_interval_s,
            now=self._loop.time(),
        )
        self._transport: asyncio.Transport | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._reading = Reading(self._loop, lambda: self.data_received(b""))
        self._unsent: list[bytes] = []
        self._request_ids = itertools.count(1)
        self._requests: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._producer_ids = itertools.count(1)
        self._consumer_ids = itertools.count(1)
        self.owners = Owners()

    @classmethod
    async def open(cls, url: str, options: ClientOptions = DEFAULT_OPTIONS) -> Self:
        """Connect to ``pulsar://host:port`` or ``pulsar+ssl://host:port`` and complete the handshake.

        Raises OSError (including TimeoutError) if the broker cannot be reached in time or trusted, RequestError if it
        rejects the client, RemoteProtocolError if it does not follow the protocol, ConfigurationError for an invalid
        URL or unreadable credentials.
        """
        address = address_of(url)
        loop, connection = asyncio.get_running_loop(), cls(url, options)
        tls = await connection._identity.read(is_encrypted=address.is_encrypted)
        try:
            async with asyncio.timeout(options.connect_timeout_s):
                await loop.create_connection(lambda: connection, address.host, address.port, ssl=tls)
                await connection._handshake
        except BaseException as error:
            connection._handshake.cancel()  # otherwise asyncio reports its error, which nobody awaits
            connection.close()
            if not isinstance(error, TimeoutError):
                raise
            message = str(error) or f"no connection within {options.connect_timeout_s:g} s"
            raise TimeoutError(message) from None
        return connection

    @property
    def peer_version(self) -> str:
        """Version string of the broker: ``Magnetar …``, or ``Pulsar Server …`` of Apache Pulsar."""
        return self._wire.peer_version

    @property
    def peer_is_magnetar(self) -> bool:
        """Whether the broker supports Magnetar's additions to the protocol."""
        return self._wire.peer_is_magnetar

    @property
    def peer_life(self) -> str:
        """The life of the broker's cluster, in its written form; empty if the broker does not send it."""
        return self._wire.peer_life

    @property
    def frame_size_max(self) -> int:
        """Maximum bytes of a frame that the broker accepts."""
        return self._wire.peer_max_message_size + FRAME_SIZE_PADDING

    @property
    def receipts_name_source(self) -> bool:
        """Whether receipts of replicated entries contain the position at the source instead of the sequence id.

        Apache Pulsar supports this since 4.0.2, if the client requests it (``ClientOptions.replicator``).
        """
        return self._options.replicator and self._wire.peer_features.supports_repl_dedup_by_lid_and_eid

    @property
    def peer_features(self) -> pb.FeatureFlags:
        """The features of the broker, such as ``supports_link_watches`` (``client.link_reports``)."""
        return self._wire.peer_features

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(self, build: Callable[[int], bytes]) -> pb.BaseCommand:
        """Send the command that ``build`` returns for a request id, and return the answer.

        Raises RequestError if the broker rejects it, TimeoutError if no answer arrives in time, and the failure of the
        connection if it ends first.
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
        except TimeoutError:
            message = f"{self.url} did not answer within {self._options.request_timeout_s:g} s"
            raise TimeoutError(message) from None
        finally:
            del self._requests[request_id]

    def tell(self, build: Callable[[int], bytes]) -> None:
        """Send the command that ``build`` returns for a request id, and ignore the answer."""
        self.write(build(next(self._request_ids)))

    async def ask_owner(self, topic: str, *, authoritative: bool = False) -> LookupAnswer:
        """Ask this broker for the owner of ``topic``; raises as ``request``."""
        build = partial(commands.lookup, topic=topic, authoritative=authoritative)
        answer = await self.request(lambda request_id: build(request_id=request_id))
        return lookup_answer(answer, is_encrypted=address_of(self.url).is_encrypted)

    # --- producers and consumers -------------------------------------------------------------------------------------

    async def create_producer(self, topic: str, name: str, metadata: Metadata = None) -> Producer:
        """Create a producer, and the topic if it is missing and may be created; raises as ``request``."""
        number = next(self._producer_ids)
        producer = Producer(self, number)
        producer.admitted(await self.open_producer(number, producer, topic=topic, name=name, metadata=metadata))
        return producer

    async def create_consumer(self, asked: pb.CommandSubscribe, read_ahead: int) -> Consumer:
        """Create a consumer as ``asked``, with a queue of up to ``read_ahead`` messages; raises as ``request``."""
        number = next(self._consumer_ids)
        start = position_of(asked.start_message_id) if asked.HasField("start_message_id") else EARLIEST
        consumer = Consumer(self, number, read_ahead, after=start if start < LATEST else EARLIEST)
        await self.open_consumer(number, asked, consumer)
        consumer.started()
        return consumer

    async def open_producer(
        self, number: int, owner: ProducerEvents, *, topic: str, name: str, epoch: int = 0, metadata: Metadata = None
    ) -> pb.CommandProducerSuccess:
        """Create producer ``number``; raises as ``request``.

        ``owner.ended`` may be called before this returns, because the broker may close the producer right after it has
        accepted it.
        """
        self.owners.producers[number] = owner
        build = partial(
            commands.producer, topic=topic, producer_id=number, producer_name=name, epoch=epoch, metadata=metadata
        )
        try:
            answer = await self.request(lambda request_id: build(request_id=request_id))
        except BaseException as error:
            if self.owners.producers.pop(number, None) is not None and not isinstance(error, RequestError):
                self.tell(partial(_close_producer, number))
            raise
        return answer.producer_success

    async def open_consumer(self, number: int, asked: pb.CommandSubscribe, owner: ConsumerEvents) -> None:
        """Create consumer ``number`` as ``asked``, without permits; raises as ``request``.

        ``owner.ended`` may be called before this returns.
        """
        self.owners.consumers[number] = owner
        asked.consumer_id = number
        try:
            await self.request(partial(_subscribe, asked))
        except BaseException as error:
            if self.owners.consumers.pop(number, None) is not None and not isinstance(error, RequestError):
                self.tell(partial(_close_consumer, number))
            raise

    def drop_producer(self, number: int) -> None:
        """Close a producer without waiting for the answer. Its owner gets no further events."""
        if self.owners.producers.pop(number, None) is not None:
            self.tell(partial(_close_producer, number))

    def drop_consumer(self, number: int) -> None:
        """Close a consumer without waiting for the answer. Its owner gets no further events."""
        if self.owners.consumers.pop(number, None) is not None:
            self.tell(partial(_close_consumer, number))

    async def close_producer(self, number: int) -> None:
        """Close a producer and wait for the answer, which follows all receipts; calls ``ended`` of its owner."""
        await self.request(partial(_close_producer, number))
        self.owners.end_producer(number, ConnectionError("producer was closed"))

    # --- the connection ----------------------------------------------------------------------------------------------

    def write(self, frame: bytes) -> None:
        """Send a frame at the end of this turn; no effect after the end of the connection."""
        if self._transport is not None and frame:
            if not self._unsent:
                self._loop.call_soon(self._flush)
            self._unsent.append(frame)

    def pause_reading(self) -> None:
        """Stop reading until ``resume_reading``; the connection does not time out meanwhile."""
        self._reading.pause()

    def resume_reading(self) -> None:
        """Continue reading."""
        self._reading.resume()

    def close(self) -> None:
        """Close the connection; frames written before are sent."""
        self._end(ConnectionError(f"connection to {self.url} was closed"))

    async def wait_ended(self) -> None:
        """Return when the connection has ended; ``failure`` is the reason."""
        await self._ended.wait()

    # --- called by asyncio -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake, unless the attempt was given up in the meantime."""
        if self.failure is not None:
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it
        self._reading.start(self._transport)
        self._tick_timer = self._loop.call_at(self._wire.next_tick_at, self._tick)
        self.write(self._identity.connect())

    def data_received(self, data: bytes) -> None:
        """Process received bytes, many frames in several turns of the loop; an error in them ends the connection."""
        if self.failure is not None:
            return
        try:
            for frame in self._wire.receive_some(data, self._loop.time()):
                if not self.owners.take(frame):
                    self._take(frame.command)
        except RemoteProtocolError as error:
            self._end(error)
            return
        self.write(self._wire.take_output())
        self._reading.processed(has_more=self._wire.decoder.has_more)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection: the transport is closed."""
        del exc
        self._end(ConnectionError(f"connection to {self.url} was lost"))

    # --- internal ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def _tick(self) -> None:
        try:
            self._wire.on_tick(self._loop.time(), is_heard=not self._reading.is_paused)
        except RemoteProtocolError as error:
            self._end(error)
        else:
            self.write(self._wire.take_output())
            self._tick_timer = self._loop.call_at(self._wire.next_tick_at, self._tick)

    def _take(self, command: pb.BaseCommand) -> None:
        """Process an answer; answers without a waiting request are dropped."""
        if command.type == pb.BaseCommand.AUTH_CHALLENGE:
            start_task(self._loop, self._identity.respond(self.write, self._end), f"authentication at {self.url}")
        elif self._handshake.done():
            self._answer(command)
        elif command.type == pb.BaseCommand.CONNECTED:
            self._handshake.set_result(None)
        else:
            self._end(cast("RequestError", refusal_in(command)))  # the table of wire.connection allows no other command

    def _answer(self, command: pb.BaseCommand) -> None:
        reply = self._requests.get(reply_to(command) or 0)
        if reply is None or reply.done():
            return
        refusal = refusal_in(command)
        if refusal is None:
            reply.set_result(command)
        else:
            reply.set_exception(refusal)

    def _end(self, failure: Exception) -> None:
        """Fail all pending operations, once."""
        if self.failure is not None:
            return
        self.failure = failure
        self._wire.closed()
        self._reading.end()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._flush()
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        for waiting in cast("list[asyncio.Future[Any]]", [self._handshake, *self._requests.values()]):
            if not waiting.done():
                waiting.set_exception(failure)
        self.owners.end_all(failure)
        self._ended.set()


def _close_producer(number: int, request_id: int) -> bytes:
    return commands.close_producer(producer_id=number, request_id=request_id)


def _close_consumer(number: int, request_id: int) -> bytes:
    return commands.close_consumer(consumer_id=number, request_id=request_id)


def _subscribe(asked: pb.CommandSubscribe, request_id: int) -> bytes:
    asked.request_id = request_id
    return commands.subscribe(asked)
