"""Shared: entries go round-robin to all consumers, each is acknowledged on its own."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from magnetar.base.position import Position
from magnetar.broker.consumer import Delivery
from magnetar.broker.dispatchers.delayed import DelayedEntries
from magnetar.broker.dispatchers.reader import EntryReader
from magnetar.broker.entry_counts import EntryCounts
from magnetar.wire import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.broker.consumer import Consumer
    from magnetar.broker.subscription import Subscription
    from magnetar.cursor.ranges import Range


class SharedDispatcher:
    """Round robin by priority level (protocol, 8.3); what comes back is sent again before anything new."""

    def __init__(self, subscription: Subscription) -> None:
        """No consumer yet."""
        config = subscription.environment.config
        self.consumers: list[Consumer] = []
        self._subscription = subscription
        self._config = config
        self._reader = EntryReader(
            subscription.topic.ledger,
            self.dispatch,
            subscription.topic.log.note_damage,
            max_entries=config.dispatcherMaxReadBatchSize,
            max_bytes=config.dispatcherMaxReadSizeBytes,
        )
        self._read_position = subscription.first_unread()
        self._replay: list[Position] = []
        """Heap of positions to send again; ``_replaying`` holds the same ones, to keep each once."""
        self._replaying: set[Position] = set()
        self._redelivery_counts = EntryCounts()
        self._delayed = DelayedEntries(subscription, self._is_held, self.dispatch)
        self._turn = 0
        self._sent_in_turn = 0
        self._blocked = False
        """Too many unacknowledged messages (``maxUnackedMessagesPerSubscription``); freed below half of it."""

    def taken(self) -> Iterator[Position]:
        """The entries that a consumer holds, or that are about to be sent."""
        yield from self._delayed.in_hand
        yield from self._replay
        for consumer in self.consumers:
            yield from consumer.pending

    @property
    def replay_count(self) -> int:
        """Entries waiting to be sent again."""
        return len(self._replay)

    @property
    def is_blocked(self) -> bool:
        """Whether dispatch waits for acknowledgements."""
        return self._blocked

    def check_can_add(self) -> None:
        """Any number of consumers may share."""

    def add(self, consumer: Consumer) -> None:
        """One more consumer takes part."""
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """What it held goes to the others at once; its redelivery counts stay as they were."""
        self.consumers.remove(consumer)
        for position in consumer.pending:
            self._push_replay(position)
        if not self.consumers:
            self._redelivery_counts.clear()
        self._check_blocked()
        self.dispatch()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int | None) -> None:
        """Send exactly these again, or all that the consumer holds; each counts as one more redelivery."""
        del epoch
        for position in positions or tuple(consumer.pending):
            if consumer.pending.pop(position):
                self._redelivery_counts.add(position.ledger_id, [(position.entry_id, 1)])
                self._push_replay(position)
        self._check_consumer(consumer)
        self._check_blocked()
        self.dispatch()

    def entries_deleted(self, ranges: Sequence[Range]) -> None:
        """Forget what was acknowledged, whoever holds it."""
        for consumer in self.consumers:
            for deleted in ranges:
                consumer.pending.discard(deleted)
            self._check_consumer(consumer)
        for deleted in ranges:
            self._redelivery_counts.discard(deleted)
        self._check_blocked()

    def rewind(self) -> None:
        """The cursor was moved: nothing that was planned or held counts any more."""
        for consumer in self.consumers:
            consumer.pending.clear()
            consumer.blocked = False
        self._replay.clear()
        self._replaying.clear()
        self._delayed.restart()
        self._redelivery_counts.clear()
        self._blocked = False
        self._read_position = self._subscription.first_unread()
        self.dispatch()

    def dispatch(self) -> None:
        """Send one read's worth, while some consumer is ready."""
        permits = sum(consumer.permits for consumer in self.consumers if consumer.is_ready)
        if self._blocked or permits <= 0 or not self._delayed.is_ready:
            return
        limit = min(permits, self._config.dispatcherMaxReadBatchSize)
        if entries := self._next_to_replay(limit):
            self._deliver(entries, self._replay_again)
        elif entries := self._delayed.due(self._read_position, limit):
            self._deliver(entries, self._delayed.give_back)
        elif entries := self._next_new(limit):
            self._deliver(entries, self._replay_again)
        else:
            return
        topic = self._subscription.topic
        if self._replay or self._delayed.may_have_more or self._read_position <= topic.ledger.last_confirmed_entry:
            topic.notify()

    def close(self) -> None:
        """Stop reading and waiting."""
        self._reader.close()
        self._delayed.close()

    def _next_to_replay(self, limit: int) -> list[tuple[Position, bytes]] | None:
        run = self._replay_run(limit)
        if run is None:
            return None
        entries = self._reader.read(*run, limit)
        for position, _ in entries or ():
            heapq.heappop(self._replay)
            self._replaying.discard(position)
        return entries

    def _next_new(self, limit: int) -> list[tuple[Position, bytes]] | None:
        self._read_position, ranges = self._delayed.readable(self._read_position, limit)
        if not ranges:
            return None
        entries = self._reader.read_ranges(ranges, limit)
        if entries:
            self._read_position = self._subscription.topic.ledger.next_position(entries[-1][0])
        return entries

    def _replay_run(self, limit: int) -> tuple[Position, Position] | None:
        """The first positions to replay that follow each other, as (first, last)."""
        state = self._subscription.cursor.state
        while self._replay and self._subscription.has_done_with(self._replay[0]):
            self._replaying.discard(heapq.heappop(self._replay))
        if not self._replay:
            return None
        first = last = self._replay[0]
        while last.entry_id - first.entry_id + 1 < limit:
            following = last._replace(entry_id=last.entry_id + 1)
            if following not in self._replaying or state.is_deleted(following):
                break
            last = following
        return first, last

    def _deliver(
        self, entries: list[tuple[Position, bytes]], put_back: Callable[[list[tuple[Position, bytes]]], None]
    ) -> None:
        """Send the entries of one read, which are of one ledger, to each consumer what it has room for in its turn."""
        now = self._subscription.environment.clock.now()
        ledger_id = entries[0][0].ledger_id
        due = self._due(entries, now)
        start = 0
        while start < len(due):
            consumer = None if self._blocked else self._next_consumer()
            if consumer is None:
                put_back([(Position(ledger_id, delivery.entry_id), delivery.entry) for delivery in due[start:]])
                return
            end, room = start, self._room(consumer)
            while end < len(due) and room > 0:
                room -= due[end].messages
                end += 1
            self._send(consumer, ledger_id, due[start:end], now)
            start = end

    def _due(self, entries: list[tuple[Position, bytes]], now: float) -> list[Delivery]:
        """Keep back what is not to be delivered yet, and find out about the rest what its delivery must say."""
        state, counts, now_ms = self._subscription.cursor.state, self._redelivery_counts, now * 1000
        is_first_delivery = not counts and not state.partial_batches_count
        is_delaying = self._subscription.topic.policies.delayed_delivery.active
        due: list[Delivery] = []
        for position, entry in entries:
            messages, deliver_at_ms = wire_entry.messages_and_delivery(entry)
            if deliver_at_ms > now_ms and is_delaying:
                self._delayed.withhold(position, deliver_at_ms)
            elif is_first_delivery:
                due.append(Delivery(position.entry_id, entry, messages))
            else:
                remaining = state.remaining(position)
                messages = messages if remaining is None else remaining.bit_count()
                due.append(Delivery(position.entry_id, entry, messages, counts[position], remaining))
        return due

    def _send(self, consumer: Consumer, ledger_id: int, run: list[Delivery], now: float) -> None:
        sent = consumer.messages_sent
        consumer.send(ledger_id, run, now)
        self._sent_in_turn += consumer.messages_sent - sent
        consumer.messages_redelivered += sum([each.messages for each in run if each.redelivery_count])
        consumer.pending.add(ledger_id, [(each.entry_id, each.messages) for each in run])
        self._check_consumer(consumer)
        self._check_blocked()

    def _next_consumer(self) -> Consumer | None:
        """The consumer whose turn it is among the ready ones of the best priority level."""
        ready = [consumer for consumer in self.consumers if consumer.is_ready]
        if len(ready) <= 1:
            return ready[0] if ready else None
        best = min(consumer.priority_level for consumer in ready)
        candidates = [consumer for consumer in ready if consumer.priority_level == best]
        if self._sent_in_turn >= self._config.dispatcherMaxRoundRobinBatchSize:
            self._turn += 1
            self._sent_in_turn = 0
        return candidates[self._turn % len(candidates)]

    def _room(self, consumer: Consumer) -> int:
        """How many messages it may be sent before there is anything to choose or to check.

        At least 1, as the consumer is ready and the subscription not blocked. The last entry may hold more.
        """
        config, room = self._config, consumer.permits
        rest_of_turn = config.dispatcherMaxRoundRobinBatchSize - self._sent_in_turn
        if len(self.consumers) > 1 and rest_of_turn > 0:
            room = min(room, rest_of_turn)
        if config.maxUnackedMessagesPerConsumer:
            room = min(room, config.maxUnackedMessagesPerConsumer - consumer.unacked_messages)
        if config.maxUnackedMessagesPerSubscription:
            room = min(room, config.maxUnackedMessagesPerSubscription - self._unacked_messages())
        return max(room, 1)

    def _push_replay(self, position: Position) -> None:
        if position not in self._replaying:
            self._replaying.add(position)
            heapq.heappush(self._replay, position)

    def _replay_again(self, entries: list[tuple[Position, bytes]]) -> None:
        for position, _ in entries:
            self._push_replay(position)

    def _is_held(self, position: Position) -> bool:
        """Whether the entry is with a consumer, or about to be sent again."""
        return position in self._replaying or any(consumer.pending[position] for consumer in self.consumers)

    def _check_consumer(self, consumer: Consumer) -> None:
        limit = self._config.maxUnackedMessagesPerConsumer
        if limit and consumer.unacked_messages >= limit:
            consumer.blocked = True
        elif consumer.unacked_messages <= limit // 2:
            consumer.blocked = False

    def _check_blocked(self) -> None:
        limit = self._config.maxUnackedMessagesPerSubscription
        unacked = self._unacked_messages()
        if limit and unacked >= limit:
            self._blocked = True
        elif unacked < max(1, limit // 2):
            self._blocked = False

    def _unacked_messages(self) -> int:
        return sum([consumer.unacked_messages for consumer in self.consumers])
