"""Connections of pipeline tasks that carry links, and of those that watch losses (protocol: Resting links)."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.errors import LinkHeldError, RequestError, ServerError
from magnetar.broker.replication.reports import REPORT_INTERVAL_S, REPORTED_AT_ONCE, sent
from magnetar.wire import commands
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.environment import Environment
    from magnetar.broker.replication.reports import Client
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class LinkCarrier:
    """A client that carries links to one target, and the due ones that it does not know yet."""

    def __init__(self, command: pb.CommandCarryLinks) -> None:
        """Begin without due links; raises RequestError for a bucket that does not exist."""
        self.buckets = _buckets(command)
        self.target = command.target
        self.lease = command.lease
        self.pipeline = command.pipeline
        self.target_state = command.target_state
        self.is_superseded = False
        self._urgent: dict[TopicName, None] = {}
        self._due: dict[TopicName, None] = {}
        self._news = asyncio.Event()

    def due(self, topic: TopicName, *, is_urgent: bool) -> None:
        """Report a link; before others if it is urgent. After a successor has begun, links are its business."""
        if self.is_superseded:
            return
        if is_urgent:
            self._due.pop(topic, None)
            self._urgent[topic] = None
        elif topic not in self._urgent:
            self._due[topic] = None
        self._news.set()

    def superseded(self) -> None:
        """Report that another task carries the links."""
        self.is_superseded = True
        self._urgent.clear()
        self._due.clear()
        self._news.set()

    async def report(self, client: Client) -> None:
        """Send reports to ``client`` until the task is cancelled, each when the client has read the one before."""
        while True:
            await self._news.wait()
            await sent(client, self._take)

    def _take(self) -> bytes:
        first = list(islice(self._urgent, REPORTED_AT_ONCE))
        others = list(islice(self._due, REPORTED_AT_ONCE - len(first)))
        for topic in first:
            del self._urgent[topic]
        for topic in others:
            del self._due[topic]
        if not self._urgent and not self._due:
            self._news.clear()
        names = map(str, (*first, *others))
        return commands.links_due(topics=names, urgent=len(first), superseded=self.is_superseded)


class LinkCarriers:
    """The connections of a broker that carry links or watch losses. Used on the event loop's thread."""

    def __init__(self, environment: Environment) -> None:
        """Begin without connections."""
        self._environment = environment
        self._carriers: dict[Client, LinkCarrier] = {}
        self._watching: set[Client] = set()
        """Connections that watch losses."""

    async def carry(self, client: Client, command: pb.CommandCarryLinks) -> None:
        """Answer CARRY_LINKS. The first one of a connection reports due links until the task is cancelled.

        Raises LinkHeldError if another client carries the links, and RequestError if the connection carries others.
        """
        resting = self._environment.resting_links
        if client in self._carriers:
            self._carry_on(self._carriers[client], command)
            client.write(commands.success(request_id=command.request_id))
            return
        carrier = LinkCarrier(command)
        resting.begin(carrier)
        self._carriers[client] = carrier
        try:
            client.write(commands.success(request_id=command.request_id))
            await carrier.report(client)
        finally:
            del self._carriers[client]
            resting.end(carrier)

    def _carry_on(self, carrier: LinkCarrier, command: pb.CommandCarryLinks) -> None:
        """Take over the state of the target that a further command of a connection reports."""
        same = (command.target, command.lease, command.pipeline) == (carrier.target, carrier.lease, carrier.pipeline)
        if not same or _buckets(command) != carrier.buckets:
            message = f"the connection carries the links to {carrier.target} for lease {carrier.lease}"
            raise RequestError(ServerError.NotAllowedError, message)
        if carrier.is_superseded:
            message = f"another task carries the links to {carrier.target}"
            raise LinkHeldError(message, None)
        self._environment.resting_links.report(carrier, command.target_state, command.lost)

    async def watch_losses(self, client: Client, request_id: int) -> None:
        """Answer WATCH_LOSSES, and report losses until the task is cancelled.

        Raises RequestError if the connection watches losses already.
        """
        if client in self._watching:
            message = "the connection watches losses already"
            raise RequestError(ServerError.NotAllowedError, message)
        news = asyncio.Event()
        losses = self._environment.losses
        watch = losses.watch(news.set)
        self._watching.add(client)

        def make() -> bytes:
            news.clear()
            state, topics = watch.take()
            return commands.topics_lost(state=state, topics=topics)

        try:
            client.write(commands.success(request_id=request_id))
            while True:
                await sent(client, make)
                await asyncio.sleep(REPORT_INTERVAL_S)
                await news.wait()
        finally:
            self._watching.discard(client)
            losses.end(watch)


def _buckets(command: pb.CommandCarryLinks) -> tuple[int, ...]:
    invalid = next((bucket for bucket in command.buckets if bucket >= LINK_BUCKETS), None)
    if invalid is not None:
        message = f"bucket {invalid}: links have {LINK_BUCKETS} buckets"
        raise RequestError(ServerError.NotAllowedError, message)
    return tuple(sorted(set(command.buckets or range(LINK_BUCKETS))))
