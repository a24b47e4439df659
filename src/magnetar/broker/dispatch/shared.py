"""Shared: entries go round-robin to all consumers and are acknowledged individually.

All chunks of a message go to one consumer (PIP-37).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.base.limits import Limit
from magnetar.base.position import Position
from magnetar.broker.dispatch.base import LookAhead
from magnetar.broker.dispatch.hashed_entries import ChunkHolders, hash_of_chunked
from magnetar.broker.dispatch.multiple_consumers import RETURNED_AT_ONCE_MAX, MultipleConsumersDispatcher
from magnetar.broker.dispatch.replay import Replay
from magnetar.wire.entries import entry as wire_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.broker.dispatch.consumer import Consumer, Delivery
    from magnetar.broker.dispatch.interfaces import DispatchedEntries
    from magnetar.cursor.ranges import Range


WAITING_CHUNKS_MAX: Final = 10_000
"""Number of chunks of a subscription that may wait for the consumers of their messages; beyond it, reading stops."""


class SharedDispatcher(MultipleConsumersDispatcher[Replay]):
    """Round robin by priority level (protocol: Shared)."""

    def __init__(self, unread: DispatchedEntries) -> None:
        """Create a dispatcher without consumers."""
        super().__init__(unread, Replay())
        self._look_ahead = LookAhead(unread.environment.limit_hits)
        self._chunks: ChunkHolders[Consumer] = ChunkHolders()
        self._turn = 0
        self._sent_in_turn = 0

    def dispatch(self) -> None:
        """See ``Dispatcher``. After most acknowledgements there is nothing to send."""
        is_at_end = self._read_position > self._unread.topic.ledger.last_confirmed_entry
        if not is_at_end or self._replay or self._returning or self._delayed.is_used:
            super().dispatch()

    def entries_deleted(self, ranges: Sequence[Range], by: Consumer | None) -> None:
        """Remove acknowledged entries from their holders."""
        super().entries_deleted(ranges, by)
        if self._chunks:
            self._chunks.deleted(ranges)

    def _give_back(self, position: Position) -> None:
        if self._chunks:
            self._chunks.given_back(position)
        self._replay.push(position)

    def _dispatch_read(self, limit: int) -> bool:
        self._replay.call_in(self._may_send, RETURNED_AT_ONCE_MAX)
        if entries := self._next_to_replay(limit):
            self._deliver(entries, self._replay_again)
            return True
        room = min(limit, WAITING_CHUNKS_MAX - self._replay.aside)  # all entries may be chunks
        if not self._look_ahead.has(room, Limit.WAITING_CHUNKS):
            return False
        if entries := self._delayed.due(self._read_position, self._limit_of_due(room)):
            self._deliver(entries, self._delayed.give_back, are_due=True)
        elif entries := self._next_new(room):
            self._deliver(entries, self._replay_again)
        return bool(entries)

    def _next_to_replay(self, limit: int) -> list[tuple[Position, bytes]] | None:
        unread = self._unread
        run = self._replay.first_run(limit, unread.is_finished, unread.cursor.state.is_deleted)
        if run is None:
            return None
        entries = self._reader.read(*run, limit)
        for _ in entries or ():
            self._replay.pop()
        return entries

    def _replay_again(self, entries: list[tuple[Position, bytes]]) -> None:
        for position, _ in entries:
            self._replay.push(position)

    def _deliver(
        self,
        entries: list[tuple[Position, bytes]],
        put_back: Callable[[list[tuple[Position, bytes]]], None],
        *,
        are_due: bool = False,
    ) -> None:
        """Send the entries of one read, all of one ledger, to each consumer as many as it may get in its turn.

        Chunks of a message follow those that a consumer holds. While it is not ready, they are set aside.
        Delayed chunks follow the entries that ``are_due``.
        """
        now = self._unread.environment.clock.now()
        ledger_id = entries[0][0].ledger_id
        heads = [wire_entry.messages_delivery_and_chunk(entry) for _, entry in entries]
        chunks = _chunks_in(entries, [head[2] for head in heads])
        due = self._due(entries, heads, now, () if are_due else chunks)
        ready = self._ready_by_level()
        start = 0
        while start < len(due):
            position = Position(ledger_id, due[start].entry_id)
            message = chunks.get(position.entry_id, 0)
            if message and (not self._may_send(message) or self._replay.follows(position, message)):
                self._replay.set_aside(position, message)
                start += 1
                continue
            consumer = None if self._is_stopped else self._chunks.holder(message) or self._next_consumer(ready)
            if consumer is None:
                put_back([(Position(ledger_id, delivery.entry_id), delivery.entry) for delivery in due[start:]])
                return
            end, room = start + 1, self._room(consumer) - due[start].messages
            while end < len(due) and room > 0 and not (message or due[end].entry_id in chunks):
                room -= due[end].messages
                end += 1
            self._send(consumer, ledger_id, due[start:end], now)
            if message:
                self._chunks.sent(consumer, position, message)
            start = end
            if not consumer.is_ready:
                _take_out(consumer, ready)

    def _may_send(self, message: int) -> bool:
        """Return whether a chunk of a message need not wait for the consumer that holds others."""
        holder = self._chunks.holder(message)
        return holder is None or holder.is_ready

    def _send(self, consumer: Consumer, ledger_id: int, run: list[Delivery], now: float) -> None:
        sent = consumer.messages_sent
        super()._send(consumer, ledger_id, run, now)
        self._sent_in_turn += consumer.messages_sent - sent

    def _ready_by_level(self) -> dict[int, list[Consumer]]:
        """Return the ready consumers by priority level, in the order of their arrival."""
        ready: dict[int, list[Consumer]] = {}
        for consumer in self.consumers:
            if consumer.is_ready:
                ready.setdefault(consumer.priority_level, []).append(consumer)
        return ready

    def _next_consumer(self, ready: dict[int, list[Consumer]]) -> Consumer | None:
        """Return the next ready consumer of the best priority level, in turn."""
        if not ready:
            return None
        candidates = ready[min(ready)]
        if len(ready) == 1 and len(candidates) == 1:
            return candidates[0]
        if self._sent_in_turn >= self._config.dispatcherMaxRoundRobinBatchSize:
            self._turn += 1
            self._sent_in_turn = 0
        return candidates[self._turn % len(candidates)]

    def _room(self, consumer: Consumer) -> int:
        """Return the room within its turn. The last entry may have more messages."""
        room, rest_of_turn = super()._room(consumer), self._config.dispatcherMaxRoundRobinBatchSize - self._sent_in_turn
        return min(room, rest_of_turn) if len(self.consumers) > 1 and rest_of_turn > 0 else room


def _chunks_in(entries: list[tuple[Position, bytes]], chunked: list[str]) -> dict[int, int]:
    """Return the chunks among the entries, by id, with the hashes of their messages; ``chunked`` are ids of these."""
    found = zip(entries, chunked, strict=True) if any(chunked) else ()
    return {position.entry_id: hash_of_chunked(its) for (position, _), its in found if its}


def _take_out(consumer: Consumer, ready: dict[int, list[Consumer]]) -> None:
    """Remove a consumer that is no longer ready from ``ready``."""
    candidates = ready[consumer.priority_level]
    candidates.remove(consumer)
    if not candidates:
        del ready[consumer.priority_level]
