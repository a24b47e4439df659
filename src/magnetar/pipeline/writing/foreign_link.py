"""The shell of one producer's bookmark at a foreign target: see `magnetar.pipeline.writing.bookmark`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST
from magnetar.base.tasks import start_task
from magnetar.pipeline import limits
from magnetar.pipeline.writing.bookmark import AskEnd, Bookmark, Effect, Fence, Flow, Mark, State, Subscribe
from magnetar.wire import commands
from magnetar.wire.entries import markers
from magnetar.wire.entries.entry import parse_metadata
from magnetar.wire.links import bookmark_subscription
from magnetar.wire.message_id import message_id, position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from magnetar.base.position import Position
    from magnetar.client.connection import PulsarConnection

FENCE_SEQUENCE_ID = 0
"""The sequence id of the marker; entries have higher ones."""


class Route(NamedTuple):
    """The source and target of a topic."""

    source: str
    topic: str
    target: str


class ForeignLink:
    """Finds the newest entry at the target, then keeps the bookmark near the end."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        route: Route,
        broker: PulsarConnection,
        number: int,
        on_ready: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """Use ``number`` at ``broker`` as the id of the producer and of the consumer; `start` begins.

        ``on_ready`` is called when the newest entry at the target is known. ``on_failure`` is called with the reason if
        it cannot be found or the link was lost.
        """
        self.bookmark = Bookmark(route.source)
        self._route = route
        self._loop = loop
        self._broker = broker
        self._number = number
        self._on_ready = on_ready
        self._on_failure = on_failure
        self._mark: Position | None = None
        self._steps = 0
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        """Return whether the newest entry at the target is known."""
        return self.bookmark.state is State.READY

    def start(self) -> None:
        """Begin the search."""
        self._advance(self.bookmark.start())
        self._expect_step()

    def close(self) -> None:
        """Close the consumer; the bookmark stays."""
        self._closed = True
        self._flush()
        for task in self._tasks:
            task.cancel()
        self._broker.drop_consumer(self._number)

    def fenced(self) -> None:
        """Handle the receipt of the marker."""
        self._advance(self.bookmark.fenced())

    def ended(self, failure: Exception) -> None:
        """See ConsumerEvents."""
        self._on_failure(f"the bookmark's consumer: {failure}")

    def received(self, message: pb.CommandMessage, entry: bytes) -> None:
        """See ConsumerEvents; handles an entry of the target's log."""
        if self.ready:
            return
        try:
            metadata = parse_metadata(entry)
        except MagnetarError as error:
            position = position_of(message.message_id)
            self._on_failure(f"the target's entry {position} cannot be read, so its end is not known: {error}")
            return
        self._advance(self.bookmark.read(position_of(message.message_id), metadata))

    def receipt(self, position: Position) -> None:
        """Handle the receipt of an entry at ``position`` of the target."""
        if position != EARLIEST:  # the receipt of an entry that the target dropped as a duplicate
            self._carry_out(self.bookmark.receipt(position))

    def _advance(self, effects: list[Effect]) -> None:
        self._steps += 1
        for effect in effects:
            self._carry_out(effect)
        if self.ready:
            self._on_ready()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Subscribe():
                self._begin(self._subscribe())
            case Fence():
                fence = markers.build_fence(
                    self._route.source, self._route.target, publish_time_ms=time.time_ns() // 1_000_000
                )
                self._broker.write(
                    commands.send(producer_id=self._number, sequence_id=FENCE_SEQUENCE_ID, entry=fence, marker=True)
                )
            case AskEnd():
                self._begin(self._ask_end())
            case Flow(permits):
                self._broker.write(commands.flow(consumer_id=self._number, message_permits=permits))
            case Mark(position):
                if self._mark is None:
                    self._loop.call_later(limits.BOOKMARK_INTERVAL_SECONDS, self._flush)
                self._mark = position

    def _flush(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            ids = [message_id(mark)]
            self._broker.write(commands.ack(consumer_id=self._number, message_ids=ids, cumulative=True))

    def _begin(self, step: Coroutine[None, None, None]) -> None:
        """Start a step that waits for a response; cancelled by ``close``."""
        task = start_task(self._loop, self._guard(step), f"bookmark of {self._route.topic}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, step: Coroutine[None, None, None]) -> None:
        try:
            await step
        except (MagnetarError, OSError) as error:
            if not self._closed:  # otherwise its end was handled before
                self._on_failure(str(error))

    async def _subscribe(self) -> None:
        asked = pb.CommandSubscribe(
            topic=self._route.topic,
            subscription=bookmark_subscription(self._route.source),
            subType=pb.CommandSubscribe.Exclusive,
            initialPosition=pb.CommandSubscribe.Earliest,
            force_topic_creation=False,
        )
        await self._broker.open_consumer(self._number, asked, self)
        self._advance(self.bookmark.subscribed())

    async def _ask_end(self) -> None:
        reply = await self._broker.request(
            lambda request_id: commands.get_last_message_id(consumer_id=self._number, request_id=request_id)
        )
        answer = reply.getLastMessageIdResponse
        has_mark = answer.HasField("consumer_mark_delete_position")
        mark = position_of(answer.consumer_mark_delete_position) if has_mark else EARLIEST
        self._advance(self.bookmark.told(position_of(answer.last_message_id), mark))

    def _expect_step(self) -> None:
        """Fail after STALL_SECONDS without a step."""
        done = self._steps

        def check() -> None:
            if self.ready or self._closed:
                return
            if self._steps == done:
                self._on_failure(f"the end of the target's log was not reached: nothing in {limits.STALL_SECONDS} s")
            else:
                self._expect_step()

        self._loop.call_later(limits.STALL_SECONDS, check)
