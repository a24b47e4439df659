"""The attachments to links of one source: consumers there, opened in turns.

An attachment keeps its turn until the target has confirmed its first entry, or the source turns out to have none. So
the source and the target get no more requests than they can answer in time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.tasks import start_task
from magnetar.pipeline import limits
from magnetar.pipeline.reading.openings import Openings
from magnetar.pipeline.reading.source_link import Acknowledge, Effect, Flow, Seek, SourceLink
from magnetar.pipeline.reading.subscribing import seek_command, subscribe_command
from magnetar.wire import commands
from magnetar.wire.message_id import message_id

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from magnetar.client.connection import PulsarConnection
    from magnetar.pipeline.connections.cluster import ClusterSession
    from magnetar.pipeline.reading.task import Task
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class AttachmentOwner(Protocol):
    """The source cluster, which handles the events of its attachments."""

    def take(self, attached: AttachedLink, message: pb.CommandMessage, entry: bytes) -> None:
        """Handle an entry."""
        ...

    def ended(self, attached: AttachedLink, failure: Exception) -> None:
        """Handle the end of an attachment by the source."""
        ...

    def carry_out(self, source_link: SourceLink, effects: list[Effect]) -> None:
        """Carry out the effects of an event of a link."""
        ...


class AttachedLink:
    """One attachment to a link: the task that attaches it, and the consumer's events."""

    __slots__ = ("_owner", "broker", "is_due_again", "is_requested", "number", "source_link", "task")

    def __init__(self, owner: AttachmentOwner, source_link: SourceLink) -> None:
        """Begin without a broker, which is found by lookup."""
        self._owner = owner
        self.source_link = source_link
        self.number = source_link.attachment.number
        self.broker: PulsarConnection | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_requested = False
        """Whether SUBSCRIBE was sent."""
        self.is_due_again = False
        """Whether the link was reported as due after that."""

    def received(self, message: pb.CommandMessage, entry: bytes) -> None:
        """See ConsumerEvents."""
        self._owner.take(self, message, entry)

    def ended(self, failure: Exception) -> None:
        """See ConsumerEvents."""
        self._owner.ended(self, failure)


class Attachments:
    """The attachments that have not ended, by their numbers."""

    def __init__(self, owner: AttachmentOwner, task: Task, session: ClusterSession) -> None:
        """Begin without attachments to links of the source of ``session``."""
        self._owner = owner
        self._task = task
        self._session = session
        self._by_number: dict[int, AttachedLink] = {}
        self._openings = Openings(limits.OPENINGS_MAX)
        self._is_starting = False

    def __len__(self) -> int:
        """Return the number of attachments."""
        return len(self._by_number)

    def __iter__(self) -> Iterator[AttachedLink]:
        """Yield the attachments; they may end meanwhile."""
        return iter(tuple(self._by_number.values()))

    def get(self, number: int) -> AttachedLink | None:
        """Return an attachment; None if it has ended."""
        return self._by_number.get(number)

    def open(self, source_link: SourceLink) -> None:
        """Subscribe to a link in its turn: links with entries to carry before others."""
        attached = AttachedLink(self._owner, source_link)
        self._by_number[attached.number] = attached
        self._openings.add(attached.number, is_urgent=source_link.is_urgent)
        self._start()

    def due(self, source_link: SourceLink) -> None:
        """Note that a link with an attachment was reported as due: again, if the source has got SUBSCRIBE before."""
        attached = self._by_number[source_link.attachment.number]
        attached.is_due_again = attached.is_requested
        if source_link.is_urgent:
            self._openings.hurry(attached.number)

    def opened(self, number: int) -> None:
        """Note that an attachment is open: it needs no turn any more. Called for each confirmation."""
        if self._openings.remove(number):
            self._start()

    def drop(self, number: int) -> None:
        """Forget an attachment that has ended."""
        attached = self._by_number.pop(number)
        if attached.task is not None:
            attached.task.cancel()
        if attached.broker is not None:
            attached.broker.drop_consumer(number)
        self._task.forget(number)
        self.opened(number)

    def send(self, effect: Flow | Acknowledge) -> None:
        """Send a command for an attachment."""
        broker = self._by_number[effect.number].broker
        assert broker is not None, "no entry came and nothing is confirmed before the source was found"
        match effect:
            case Flow(number, permits):
                broker.write(commands.flow(consumer_id=number, message_permits=permits))
            case Acknowledge(number, position):
                ids = [message_id(position)]
                broker.write(commands.ack(consumer_id=number, message_ids=ids, cumulative=True))

    def close(self) -> None:
        """Cancel the tasks that attach links."""
        for attached in self._by_number.values():
            if attached.task is not None:
                attached.task.cancel()

    def _start(self) -> None:
        """Begin to open the attachments whose turn has come, in the next turn of the loop."""
        if not self._is_starting:
            self._is_starting = True
            self._task.loop.call_soon(self._start_now)

    def _start_now(self) -> None:
        self._is_starting = False
        for number in self._openings.starting():
            attached = self._by_number[number]
            name = f"link of {attached.source_link.attachment.topic} to {self._task.target}"
            attached.task = start_task(self._task.loop, self._attach(attached), name)
            self._expire(number, self._task.loop.time())

    def _expire(self, number: int, began_at: float) -> None:
        """End the turn of an attachment that is not open in time."""
        left_s = began_at + self._openings.patience_s - self._task.loop.time()
        if left_s <= 0:
            self.opened(number)
        elif self._openings.is_opening(number):
            self._task.loop.call_later(left_s, self._expire, number, began_at)

    async def _attach(self, attached: AttachedLink) -> None:
        """Look up the topic's broker and subscribe there; cancelled if the attachment ends before."""
        source_link, number = attached.source_link, attached.number
        began_at = self._task.loop.time()
        try:
            broker = await self._session.client.owner(source_link.attachment.topic)
            attached.broker, attached.is_requested = broker, True
            source_link.found(broker.peer_life)
            await broker.open_consumer(number, subscribe_command(self._task, source_link, broker), attached)
            if broker is self._session.client.service:  # what it reported before the answer is not news
                attached.is_due_again = False
            effects = source_link.subscribed()
            if isinstance(effects, Seek):
                await broker.request(partial(seek_command, effects))
                effects = source_link.sought()
        except (MagnetarError, OSError) as error:
            self._owner.ended(attached, error)
        else:
            self._openings.answered(self._task.loop.time() - began_at)
            self._owner.carry_out(source_link, effects)
            self._task.loop.call_later(limits.FIRST_ENTRY_SECONDS, self._settle, attached)

    def _settle(self, attached: AttachedLink) -> None:
        """Handle an attachment that got no entry: the source had none, unless it has said that it has some."""
        if attached.source_link.is_caught_up and not attached.source_link.is_urgent:
            self.opened(attached.number)
