"""Base of Shared and Key_Shared: several consumers receive, and entries are acknowledged individually."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from magnetar.base.limits import Limit
from magnetar.base.parts import Part
from magnetar.broker.dispatch.base import Consumers, SizeEstimate
from magnetar.broker.dispatch.consumer import Delivery
from magnetar.broker.dispatch.delayed import DelayedEntries
from magnetar.broker.dispatch.entry_counts import EntryCounts, by_ledger
from magnetar.broker.reading.reader import EntryReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.dispatch.interfaces import DispatchedEntries
    from magnetar.cursor.ranges import Range

    _Head = tuple[int, int, *tuple[object, ...]]
    """The number of messages of an entry, its ``deliver_at_time``, and what a subclass needs besides."""

RETURNED_AT_ONCE_MAX = 1000
"""Number of entries of removed consumers that one turn returns to the replay queue; a few milliseconds of work."""


class EntriesToReplay(Protocol):
    """Entries that were read and still have to be sent."""

    def __len__(self) -> int:
        """Return the number of entries."""
        ...

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the entries, unordered."""
        ...

    def __contains__(self, position: Position) -> bool:
        """Return whether an entry is included."""
        ...


SET_ENTRIES_MAX = 100_000
"""Maximum number of acknowledged entries that are searched with sets (some milliseconds); more have few ranges."""

HELD_CHECKS_MAX = 20_000
"""Maximum number of checks in one turn whether a consumer holds an entry; some milliseconds of work."""

R = TypeVar("R", bound=EntriesToReplay)


class MultipleConsumersDispatcher(Consumers, Part, ABC, Generic[R]):
    """Tracks the entries held by each consumer, and the entries to redeliver, which are sent before new ones.

    Subclasses choose the consumer of an entry.
    """

    OWNS = ("_reader", "_delayed")

    def __init__(self, unread: DispatchedEntries, replay: R) -> None:
        """Create a dispatcher without consumers."""
        super().__init__()
        config = unread.environment.config
        self._unread = unread
        self._config = config
        self._reader = EntryReader.of(unread.topic, self.dispatch, unread.topic.log.note_damage)
        self._read_position = unread.first()
        self._replay = replay
        self._redelivery_counts = EntryCounts()
        self._sizes = SizeEstimate()
        self._unacked_messages = 0
        """Number of messages held by all consumers together."""
        self._returning: deque[EntryCounts] = deque()
        """Entries of consumers that left, or that requested redelivery of all, as far as they are not in the replay
        queue yet. Nothing is sent until this is empty."""
        self._wanted_again: set[EntryCounts] = set()
        """Part of ``_returning`` whose entries count as redelivered."""
        self._delayed = DelayedEntries(unread, self._is_held, self.dispatch)
        self._blocked = False
        """Whether the limit ``maxUnackedMessagesPerSubscription`` was exceeded; reset below half of that."""

    def taken(self) -> Iterator[Position]:
        """Yield the entries that a consumer holds or that are about to be sent."""
        yield from self._delayed.in_hand
        yield from self._replay
        for consumer in self.consumers:
            yield from consumer.pending
        for held in self._returning:
            yield from held

    @property
    def replay_count(self) -> int:
        """Number of entries that were read and wait to be sent."""
        return len(self._replay)

    @property
    def is_blocked(self) -> bool:
        """Whether dispatch waits for acknowledgements."""
        return self._blocked

    def remove(self, consumer: Consumer) -> None:
        """Return its entries to the replay queue, in slices; their redelivery counts do not change."""
        super().remove(consumer)
        self._unacked_messages -= consumer.unacked_messages
        if consumer.pending:
            self._returning.append(consumer.pending)
            self._take_back()
        if not self.consumers:
            self._redelivery_counts.clear()
            self._wanted_again.clear()
        self._check_blocked()
        self._unread.topic.notify()  # once for all consumers that leave in this turn

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int | None) -> None:
        """Send these entries, or all entries of the consumer, again; the redelivery count of each increases by one."""
        del epoch
        if not positions and consumer.pending:
            self._unacked_messages -= consumer.unacked_messages
            held, consumer.pending = consumer.pending, EntryCounts()
            self._wanted_again.add(held)
            self._returning.append(held)
        for position in positions:
            if messages := consumer.pending.pop(position):
                self._unacked_messages -= messages
                self._redelivery_counts.add(position.ledger_id, [(position.entry_id, 1)])
                self._give_back(position)
        self._check_consumer(consumer)
        self._check_blocked()
        self.dispatch()

    def holders(self, entries: Range) -> list[Consumer]:
        """Return the consumers that were sent some of these entries."""
        return [consumer for consumer in self.consumers if consumer.pending.holds_any(entries)]

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Remove acknowledged entries from their holders, first from ``by``, which is mostly the holder."""
        left = sum([each.entries for each in ranges])
        if by is not None and by in self.consumers:
            gone = by.pending.discard(ranges)
            by.messages_acked += sum(gone)
            left -= self._forgot(by, gone)
        if left:
            self._forget_others(ranges, left)
        self._redelivery_counts.discard(ranges)
        self._check_blocked()

    def messages_deleted(self, positions: Iterable[Position], by: Consumer) -> None:
        """Record that messages of these batches were acknowledged by a consumer, which mostly holds the batches."""
        state, unacked = self._unread.cursor.state, by.unacked_messages
        for position in positions:
            remaining, held = state.remaining(position), by.pending[position]
            if remaining is not None and held > remaining.bit_count():
                by.pending.add(position.ledger_id, [(position.entry_id, remaining.bit_count() - held)])
        gone = unacked - by.unacked_messages
        if gone and by in self.consumers:
            by.messages_acked += gone
            self._forgot(by, [gone])
            self._check_blocked()
            self._unread.topic.notify()

    def _forget_others(self, ranges: Sequence[Range], left: int) -> None:
        """Remove ``left`` of these entries, which any consumer may hold, or none.

        Thousands of consumers are checked with sets. So the time grows with the number of held entries, not with the
        number of consumers times the number of ranges.
        """
        is_for_sets = left <= SET_ENTRIES_MAX
        deleted = by_ledger(ranges) if is_for_sets else {}
        for consumer in self.consumers:
            pending = consumer.pending
            left -= self._forgot(consumer, pending.take(deleted) if is_for_sets else pending.discard(ranges))
            if not left:
                return
        for held in self._returning:
            if is_for_sets:
                held.take(deleted)
            else:
                held.discard(ranges)

    def limits_changed(self) -> None:
        """Unblock what is below the present limits of unacknowledged messages, and block what has reached them."""
        policies = self._unread.topic.policies
        for consumer in self.consumers:
            consumer.blocked &= consumer.unacked_messages >= policies.max_unacked_per_consumer
            self._check_consumer(consumer)
        self._blocked &= self._unacked_messages >= policies.max_unacked_per_subscription
        self._check_blocked()
        self._unread.topic.notify()

    def dispatch(self) -> None:
        """Send one read while a consumer is ready."""
        if self._returning:
            self._take_back()
            if self._returning:
                self._unread.topic.notify()
                return
        if self._blocked or self._unread.is_stopped or not self._delayed.is_ready:
            return
        enough = self._config.dispatcherMaxReadBatchSize
        limit = min(enough, self._sizes.entries_for(self._permits(self._sizes.permits_for(enough))))
        if self._unread.throttle is not None and limit > 0:
            limit = min(limit, self._unread.throttle.room())
        if limit <= 0 or not self._dispatch_read(limit):
            return
        topic = self._unread.topic
        if self._replay or self._delayed.may_have_more or self._read_position <= topic.ledger.last_confirmed_entry:
            topic.notify()

    def close(self) -> None:
        """Stop reading and waiting."""
        self._reader.close()
        self._delayed.close()
        self._unread.environment.retired.add(self)

    @abstractmethod
    def _dispatch_read(self, limit: int) -> bool:
        """Read and send at most ``limit`` entries, first those to send again; return whether there were any."""

    @abstractmethod
    def _give_back(self, position: Position) -> None:
        """Queue an unacknowledged entry that its consumer no longer holds."""

    def _take_back(self) -> None:
        """Move a part of ``_returning`` to the replay queue."""
        room = RETURNED_AT_ONCE_MAX
        while self._returning and room > 0:
            held = self._returning[0]
            positions = list(islice(held, room))
            for position in positions:
                held.pop(position)
                if held in self._wanted_again:
                    self._redelivery_counts.add(position.ledger_id, [(position.entry_id, 1)])
                self._give_back(position)
            room -= len(positions)
            if not held:
                self._returning.popleft()
                self._wanted_again.discard(held)

    def _permits(self, enough: int) -> int:
        """Return the permits of all ready consumers, at most ``enough``."""
        permits = 0
        for consumer in self.consumers:
            if consumer.is_ready:
                permits += consumer.permits
                if permits >= enough:
                    return enough
        return permits

    def _forgot(self, consumer: Consumer, gone: Sequence[int]) -> int:
        """Account for acknowledged entries that a consumer held, given their messages; return how many they are."""
        if gone:
            self._unacked_messages -= sum(gone)
            self._check_consumer(consumer)
        return len(gone)

    def _next_new(self, limit: int) -> list[tuple[Position, bytes]] | None:
        self._read_position, ranges = self._delayed.readable(self._read_position, limit)
        if not ranges:
            return None
        entries = self._reader.read_ranges(ranges, limit)
        if entries:
            self._read_position = self._unread.topic.ledger.next_position(entries[-1][0])
        return entries

    def _due(
        self, entries: list[tuple[Position, bytes]], heads: Iterable[_Head], now: float, chunks: Collection[int] = ()
    ) -> list[Delivery]:
        """Withhold entries that are not due yet, and ``chunks`` that must follow such entries; return the others."""
        state, counts, now_ms = self._unread.cursor.state, self._redelivery_counts, now * 1000
        is_first_delivery = not counts and not state.partial_batches_count
        is_delaying = self._unread.topic.policies.delayed_delivery.active
        following = chunks if chunks and not self._delayed.has_sent(int(now_ms)) else ()
        due: list[Delivery] = []
        for (position, entry), (messages, deliver_at_ms, *_) in zip(entries, heads, strict=True):
            if deliver_at_ms and is_delaying and (deliver_at_ms > now_ms or position.entry_id in following):
                self._delayed.withhold(position, deliver_at_ms)
            elif is_first_delivery:
                due.append(Delivery(position.entry_id, entry, messages))
            else:
                remaining = state.remaining(position)
                left = messages if remaining is None else remaining.bit_count()
                due.append(Delivery(position.entry_id, entry, left, counts[position], remaining))
        self._sizes.note(due)
        return due

    def _send(self, consumer: Consumer, ledger_id: int, run: list[Delivery], now: float) -> None:
        consumer.send(ledger_id, run, now)
        consumer.messages_redelivered += sum([each.messages for each in run if each.redelivery_count])
        held = consumer.unacked_messages
        consumer.pending.add(ledger_id, [(each.entry_id, each.messages) for each in run])
        self._unacked_messages += consumer.unacked_messages - held
        if self._unread.throttle is not None:
            self._unread.throttle.sent_run(run)
        self._check_consumer(consumer)
        self._check_blocked()

    def _room(self, consumer: Consumer) -> int:
        """Return how many messages a ready consumer may get before the next check of limits; at least 1."""
        limit, room = self._unread.topic.policies.max_unacked_per_consumer, min(consumer.permits, self._room_in_all())
        if limit:
            room = min(room, limit - consumer.unacked_messages)
        return max(room, 1)

    def _room_in_all(self) -> int:
        """Return how many messages may be sent before all consumers together hold too many, or exceed a rate."""
        limit, throttle = self._unread.topic.policies.max_unacked_per_subscription, self._unread.throttle
        room = limit - self._unacked_messages if limit else sys.maxsize
        return room if throttle is None else min(room, throttle.room())

    @property
    def _is_stopped(self) -> bool:
        """Whether nothing more may be sent now."""
        return self._blocked or (self._unread.throttle is not None and not self._unread.throttle.room())

    def _limit_of_due(self, limit: int) -> int:
        """Return how many delayed entries may be taken; any consumer may already hold each of them."""
        return min(limit, max(1, HELD_CHECKS_MAX // (len(self.consumers) + len(self._returning) + 1)))

    def _is_held(self, position: Position) -> bool:
        """Return whether a consumer holds the entry, or it is about to be sent."""
        is_held = any(consumer.pending[position] for consumer in self.consumers)
        return is_held or position in self._replay or any(held[position] for held in self._returning)

    def _check_consumer(self, consumer: Consumer) -> None:
        limit = self._unread.topic.policies.max_unacked_per_consumer
        if limit and consumer.unacked_messages >= limit:
            if not consumer.blocked:
                consumer.blocked = True
                self._unread.environment.limit_hits.hit(Limit.UNACKED_PER_CONSUMER)
        elif not limit or consumer.unacked_messages <= limit // 2:
            consumer.blocked = False

    def _check_blocked(self) -> None:
        limit = self._unread.topic.policies.max_unacked_per_subscription
        unacked = self._unacked_messages
        if limit and unacked >= limit:
            if not self._blocked:
                self._blocked = True
                self._unread.environment.limit_hits.hit(Limit.UNACKED_PER_SUBSCRIPTION)
        elif not limit or unacked < max(1, limit // 2):
            self._blocked = False
