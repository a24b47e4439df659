"""Simulated producers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.sim.checks.model import ATTEMPT, base_of
from magnetar.sim.clients.client import Observer, SimClient
from magnetar.sim.content import build
from magnetar.sim.virtual.scheduler import MachineLoop
from magnetar.wire import commands
from magnetar.wire.frame import encode_command
from magnetar.wire.message_id import position_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.sim.clients.client import ClientContext
    from magnetar.sim.content import Draft
    from magnetar.wire.frame import Frame

PATIENT_FROM = 5
"""Number of attempts to publish an entry after which a refused producer waits longer each time."""

RECENT = 3
"""Number of newest receipted entries that a producer sends again after a move."""


@dataclass(slots=True)
class Unsent:
    """An entry without a receipt."""

    metadata: pb.MessageMetadata
    base: str
    members: int
    attempts: int = 0

    @property
    def is_chunk(self) -> bool:
        """Return whether the entry is a chunk of a message."""
        return self.metadata.num_chunks_from_msg > 1

    @property
    def sequence_id(self) -> int:
        """Return the sequence id of the entry's first message."""
        return self.metadata.sequence_id

    @property
    def text(self) -> str:
        """Return the text of the entry. It differs between attempts to publish, so that no two entries are equal."""
        return self.base if self.attempts < 2 else f"{self.base}{ATTEMPT}{self.attempts}"


class ProducerObserver(Observer, Protocol):
    """An observer of producers."""

    def published(self, text: str, entry: bytes) -> None:
        """Record an entry that a producer sends; its text is unique."""
        ...

    def receipted(self, cluster: str, text: str, position: Position) -> None:
        """Record a receipt of a producer."""
        ...


class SimProducer(SimClient[ProducerObserver]):
    """A producer that resends entries without a receipt in order, with the same sequence ids."""

    def __init__(self, name: str, cluster: str, context: ClientContext[ProducerObserver]) -> None:
        """Publish to ``cluster``."""
        self.pending: deque[Unsent] = deque()
        self._recent: deque[Unsent] = deque(maxlen=RECENT)
        self._network = context.network
        self._scheduler = context.scheduler
        self._next_sequence_id = 0
        self._ready = False
        super().__init__(name, cluster, context)

    def move(self, cluster: str) -> None:
        """Continue in another cluster, like a process that restarts from a checkpoint before the last receipts.

        The producer publishes a chunked message completely or not at all.
        """
        while self._recent and self._recent[0].metadata.chunk_id > 0:
            self._recent.popleft()
        self.pending.extendleft(reversed(self._recent))
        self._recent.clear()
        self.loop.die()
        self._network.break_all_of(self.loop)
        self.cluster, self.peer, self._ready, self._connecting = cluster, None, False, False
        self._reconnect = None  # the timer belonged to the previous process
        self.loop = MachineLoop(self._scheduler, f"{cluster}.{self.name}", self._network)
        self.connect()

    def publish(self, draft: Draft) -> str:
        """Publish a message or a batch of messages; return the text of the last entry."""
        first = self._next_sequence_id
        self._next_sequence_id += draft.members
        entries = [Unsent(each, base_of(each), draft.members) for each in draft.metadata(self.name, first)]
        self.pending.extend(entries)
        if self._ready:
            self._send(entries)
        return entries[-1].base

    def send_again(self) -> bool:
        """Resend all entries without a receipt, like a client after a send time-out; return False if not connected."""
        if not self._ready:
            return False
        self._ready = False
        self.disconnect()
        self.reconnect()
        return True

    def opened(self) -> None:
        """Open the producer."""
        self._ready = False
        body = pb.CommandProducer(
            topic=str(self.topic),
            producer_id=1,
            request_id=self.request_id(),
            producer_name=self.name,
            user_provided_producer_name=True,
        )
        self.say(commands.encode(body))

    def closed(self) -> None:
        """Wait for the next connection."""
        self._ready = False

    def take(self, frame: Frame) -> None:
        """Handle receipts; after a refusal, reconnect and resend."""
        command = frame.command
        match command.type:
            case pb.BaseCommand.PRODUCER_SUCCESS:
                self._ready = True
                self._send(self.pending)
            case pb.BaseCommand.SEND_RECEIPT if self._ready:
                self._receipt(command.send_receipt)
            case pb.BaseCommand.SEND_ERROR | pb.BaseCommand.ERROR:
                self._ready = False
                if self.pending:  # official clients increase the delay too
                    self.patience = max(1, self.pending[0].attempts - PATIENT_FROM)
                self.disconnect()
                self.reconnect()
            case pb.BaseCommand.CLOSE_PRODUCER:
                self._ready = False
                self.again(self._reopen)
            case _:
                pass

    def _reopen(self) -> None:
        if not self._ready:
            self.opened()

    def _receipt(self, receipt: pb.CommandSendReceipt) -> None:
        unsent = self.pending.popleft()
        self.patience = 1
        self._recent.append(unsent)
        assert receipt.sequence_id == unsent.sequence_id, (self.name, receipt.sequence_id, unsent)
        self.observer.receipted(self.cluster, unsent.text, position_of(receipt.message_id))

    def _send(self, entries: Iterable[Unsent]) -> None:
        """Send entries together, so that the broker handles them as one run."""
        self.say(*map(self._encode, entries))

    def _encode(self, unsent: Unsent) -> bytes:
        unsent.attempts += 1
        body = pb.CommandSend(producer_id=1, sequence_id=unsent.sequence_id, num_messages=unsent.members)
        if unsent.metadata.HasField("highest_sequence_id"):
            body.highest_sequence_id = unsent.metadata.highest_sequence_id
        if unsent.is_chunk:
            body.is_chunk = True
        entry = build(unsent.metadata, unsent.text)
        self.observer.published(unsent.text, entry)
        return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=body), entry)
