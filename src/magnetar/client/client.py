"""A client of one cluster: shared connections to its brokers, opened on demand, and lookup of topics."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.client.connection import PulsarConnection
from magnetar.client.consumer import READ_AHEAD, Consumer
from magnetar.client.options import DEFAULT_OPTIONS, LOOKUP_REDIRECTS_MAX, ClientOptions
from magnetar.client.replies import too_many_redirects
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.base.position import Position
    from magnetar.client.producer import Producer


class PulsarClient:
    """A client of one cluster, used from one event loop.

    It has one connection to each broker. After a connection has ended, the next request opens a new one.
    """

    def __init__(self, url: str, options: ClientOptions = DEFAULT_OPTIONS) -> None:
        """Create a client of the cluster with the broker URL ``url``; it connects on demand."""
        self.url = url
        self._options = options
        self._connections: dict[str, PulsarConnection] = {}
        self._opening: dict[str, asyncio.Task[PulsarConnection | OSError | MagnetarError]] = {}
        self._is_paused = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        """Close at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    @property
    def service(self) -> PulsarConnection | None:
        """The open connection to the cluster's URL; None if there is none."""
        connection = self._connections.get(self.url)
        return connection if connection is not None and connection.failure is None else None

    async def connect(self, url: str = "") -> PulsarConnection:
        """Return the connection to the broker at ``url`` (default: the cluster's); raises as PulsarConnection.open."""
        url = url or self.url
        connection = self._connections.get(url)
        if connection is not None and connection.failure is None:
            return connection
        opening = self._opening.get(url)
        if opening is None:
            loop = asyncio.get_running_loop()
            opening = self._opening[url] = start_task(loop, self._open(url), f"connection to {url}")
        opened = await asyncio.shield(opening)  # others may wait for the same connection
        if isinstance(opened, PulsarConnection):
            return opened
        raise opened

    async def owner(self, topic: str) -> PulsarConnection:
        """Return a connection to the broker that owns ``topic``; follows redirects.

        Raises as PulsarConnection.open and PulsarConnection.request.
        """
        broker = await self.connect()
        authoritative = False
        for _ in range(1 + LOOKUP_REDIRECTS_MAX):
            answer = await broker.ask_owner(topic, authoritative=authoritative)
            broker = await self.connect(answer.url)
            if not answer.redirect:
                return broker
            authoritative = answer.authoritative
        raise too_many_redirects(topic, LOOKUP_REDIRECTS_MAX)

    async def create_producer(self, topic: str, name: str, metadata: Mapping[str, str] | None = None) -> Producer:
        """Create a producer at the owner of ``topic``; raises as ``owner``."""
        return await (await self.owner(topic)).create_producer(topic, name, metadata)

    async def subscribe(
        self,
        topic: str,
        subscription: str,
        *,
        kind: pb.CommandSubscribe.SubType.ValueType = pb.CommandSubscribe.Exclusive,
        start: pb.CommandSubscribe.InitialPosition.ValueType = pb.CommandSubscribe.Latest,
        read_ahead: int = READ_AHEAD,
    ) -> Consumer:
        """Subscribe; a new subscription starts at ``start``. Raises as ``owner``."""
        asked = pb.CommandSubscribe(topic=topic, subscription=subscription, subType=kind, initialPosition=start)
        return await (await self.owner(topic)).create_consumer(asked, read_ahead)

    async def read(
        self,
        topic: str,
        start: Position,
        *,
        read_ahead: int = READ_AHEAD,
        creates_topic: bool = True,
        subscription: str = "",
    ) -> Consumer:
        """Read the entries after ``start`` without a durable subscription; raises as ``owner``.

        ``subscription`` is the name of the reader's cursor, by default a new one. Without ``creates_topic``, raises
        RequestError with TopicNotFound for a missing topic.
        """
        asked = pb.CommandSubscribe(
            topic=topic,
            subscription=subscription or reader_name(),
            subType=pb.CommandSubscribe.Exclusive,
            durable=False,
            force_topic_creation=creates_topic,
            start_message_id=message_id(start),
        )
        return await (await self.owner(topic)).create_consumer(asked, read_ahead)

    def pause_reading(self) -> None:
        """Stop reading from all connections until ``resume_reading``."""
        self._is_paused = True
        for connection in self._living():
            connection.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading."""
        self._is_paused = False
        for connection in self._living():
            connection.resume_reading()

    def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for opening in self._opening.values():
            opening.cancel()
        for connection in self._living():
            connection.close()

    async def aclose(self) -> None:
        """Close all connections; return when frames written before are sent."""
        self.close()
        await asyncio.sleep(0)  # they are sent at the end of this turn

    def _living(self) -> Iterator[PulsarConnection]:
        return (connection for connection in list(self._connections.values()) if connection.failure is None)

    async def _open(self, url: str) -> PulsarConnection | OSError | MagnetarError:
        """Open a connection; return it, or the error, which is raised to its callers only."""
        try:
            connection = await PulsarConnection.open(url, self._options)
        except (OSError, MagnetarError) as error:
            return error
        finally:
            del self._opening[url]
        if self._is_closed:
            connection.close()
            return connection
        self._connections[url] = connection
        if self._is_paused:
            connection.pause_reading()
        return connection


def reader_name() -> str:
    """Return a new name for the cursor of a reader, in the form of Pulsar's clients."""
    return f"reader-{uuid.uuid4().hex[:10]}"
