"""Exclusive and Failover: one consumer receives, in order. Cumulative acknowledgements are allowed."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.parts import Part
from magnetar.base.position import Position
from magnetar.broker.dispatch.base import Consumers, SizeEstimate
from magnetar.broker.dispatch.consumer import Delivery
from magnetar.broker.dispatch.election import Candidates
from magnetar.broker.dispatch.notices import ActiveNotices
from magnetar.broker.reading.reader import EntryReader
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.names import TopicName
    from magnetar.broker.dispatch.consumer import Consumer, ConsumerOptions
    from magnetar.broker.dispatch.interfaces import DispatchedEntries
    from magnetar.broker.environment import Environment
    from magnetar.cursor.ranges import Range


class ActiveConsumer(Consumers):
    """The consumers of an Exclusive or Failover subscription, one of which is active.

    Failover elects as Pulsar does (`election`), and notifies all consumers of a change.
    """

    def __init__(self, environment: Environment, name: TopicName, *, exclusive: bool) -> None:
        """Start without consumers."""
        super().__init__()
        self.active: Consumer | None = None
        self._exclusive = exclusive
        self._candidates: Candidates[Consumer] = Candidates(str(name), name.partition_index)
        patience_s = environment.config.activeConsumerFailoverDelayTimeMillis / 1000
        self._notices = None if exclusive else ActiveNotices(environment.sliced, environment.loop, patience_s)

    def conflicting(self, options: ConsumerOptions) -> list[Consumer]:
        """Return the consumer of an Exclusive subscription: it allows one only."""
        del options
        return list(self.consumers) if self._exclusive else []

    def check_can_add(self, options: ConsumerOptions) -> None:
        """Raise RequestError for a second consumer of an Exclusive subscription."""
        del options
        if self._exclusive and self.consumers:
            raise RequestError(ServerError.ConsumerBusy, "Exclusive consumer is already connected")

    def add(self, consumer: Consumer) -> None:
        """Elect again: the new consumer may become active. Otherwise, only the new consumer is notified."""
        super().add(consumer)
        self._candidates.add(consumer)
        if self._notices is not None:
            self._notices.added(consumer)
        if not self._elect() and self._notices is not None:
            self._notices.notify(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; a subclass elects again."""
        super().remove(consumer)
        self._candidates.remove(consumer)
        if self._notices is not None:
            self._notices.removed(consumer)

    def close(self) -> None:
        """Stop sending notices."""
        if self._notices is not None:
            self._notices.close()

    def _elect(self) -> bool:
        """Elect the active consumer; return whether it changed."""
        chosen = self._candidates.elected()
        if chosen is self.active:
            return False
        self.active = chosen
        if self._notices is not None:
            self._notices.changed(chosen)
        return True


class SingleActiveDispatcher(ActiveConsumer, Part):
    """Sends all unacknowledged entries, in order, to the active consumer, within the limits of persisted state.

    The cursor rewinds when another consumer becomes active: entries that the old one did not acknowledge go to the new
    one.
    """

    OWNS = ("_reader",)

    def __init__(self, unread: DispatchedEntries, *, exclusive: bool) -> None:
        """Create a dispatcher without consumers."""
        super().__init__(unread.environment, unread.topic.name, exclusive=exclusive)
        config = unread.environment.config
        self._unread = unread
        self._switch_delay_s = config.activeConsumerFailoverDelayTimeMillis / 1000
        self._switching: asyncio.TimerHandle | None = None
        self._election: asyncio.Handle | None = None
        self._reader = EntryReader.of(unread.topic, self.dispatch, unread.topic.log.note_damage)
        self._read_limit = config.dispatcherMaxReadBatchSize
        self._read_position = unread.first()
        self._sizes = SizeEstimate()

    def remove(self, consumer: Consumer) -> None:
        """Elect again at the end of this turn, once for all consumers that leave in the turn."""
        super().remove(consumer)
        if consumer is self.active:
            self.active = None
        if not self.consumers and self._switching is not None:
            self._switching.cancel()
            self._switching = None
        if self._election is None:
            self._election = self._unread.environment.loop.call_soon(self._elect)

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int | None) -> None:
        """Rewind to the mark-delete position; the positions are ignored, as in Pulsar.

        A client that numbers its requests drops every message with a lower epoch. The epoch of an inactive consumer
        counts as well, because the consumer may become active.
        """
        del positions
        if epoch is not None:
            consumer.epoch = epoch if consumer.epoch is None else max(consumer.epoch, epoch)
        if consumer is self.active:
            self.rewind()

    @property
    def in_progress(self) -> int:
        """See Dispatcher; estimated from the entries and their average number of messages. 0 is exact."""
        if self.active is None:
            return 0
        state, log, first = self._unread.cursor.state, self._unread.topic.log, self._unread.first()
        sent = state.undeleted(first, self._unread.topic.ledger.previous_position(self._read_position), sys.maxsize)
        entries = sum(part.entries for each in sent for part in log.damaged.absent(each))
        return max(entries, round(entries * self.active.messages_per_entry))

    def holders(self, entries: Range) -> list[Consumer]:
        """Return the active consumer, which was sent everything before the read position."""
        return [self.active] if self.active is not None and entries.first < self._read_position else []

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Count the messages; held entries are not tracked here."""
        if by is not None:
            by.messages_acked += sum([each.entries for each in ranges]) * by.messages_per_entry

    def limits_changed(self) -> None:
        """Do nothing: the limits concern held entries, which are not tracked here."""

    def rewind(self) -> None:
        """Read again from the first unacknowledged entry."""
        self._read_position = self._unread.first()
        self.dispatch()

    def dispatch(self) -> None:
        """Send one read to the active consumer, if it has permits."""
        consumer = self.active
        if consumer is None or not consumer.is_ready or self._switching is not None or self._unread.is_stopped:
            return
        limit = min(self._read_limit, self._sizes.entries_for(consumer.permits))
        if self._unread.throttle is not None:
            limit = min(limit, self._unread.throttle.room())
            if not limit:
                return
        ranges = self._unread.readable(self._read_position, limit)
        entries = self._reader.read_ranges(ranges, limit) if ranges else None
        if not entries:
            return
        ledger = self._unread.topic.ledger
        self._read_position = ledger.next_position(self._send(consumer, entries))
        if self._read_position <= ledger.last_confirmed_entry:
            self._unread.topic.notify()

    def close(self) -> None:
        """Stop reading."""
        self._reader.close()
        super().close()
        for handle in (self._switching, self._election):
            if handle is not None:
                handle.cancel()
        self._unread.environment.retired.add(self)

    def _send(self, consumer: Consumer, entries: list[tuple[Position, bytes]]) -> Position:
        """Send entries of one read, all of one ledger, as permits allow; return the last position sent."""
        state, permits, throttle = self._unread.cursor.state, consumer.permits, self._unread.throttle
        if throttle is not None:
            permits = min(permits, throttle.room())
        run: list[Delivery] = []
        for position, entry in entries:
            remaining = state.remaining(position)
            messages = wire_entry.messages_in(entry) if remaining is None else remaining.bit_count()
            run.append(Delivery(position.entry_id, entry, messages, remaining=remaining))
            permits -= messages
            if permits <= 0:
                break
        self._sizes.note(run)
        ledger_id = entries[0][0].ledger_id
        consumer.send(ledger_id, run, self._unread.environment.clock.now(), consumer.epoch)
        if throttle is not None:
            throttle.sent_run(run)
        return Position(ledger_id, run[-1].entry_id)

    def _elect(self) -> bool:
        """Elect the active consumer; return whether it changed."""
        if self._election is not None:
            self._election.cancel()
            self._election = None
        had_active = self.active is not None
        if not super()._elect():
            return False
        self._read_position = self._unread.first()
        if self._switching is not None:
            return True  # the consumer that was active before still has the same time; others were sent nothing since
        if had_active and self._switch_delay_s > 0:
            # The old active consumer is still connected: wait for its acknowledgements before sending again.
            self._switching = asyncio.get_running_loop().call_later(self._switch_delay_s, self._switched)
        else:
            self.dispatch()
        return True

    def _switched(self) -> None:
        self._switching = None
        self.rewind()
