"""Entries with hashes: those held by consumers, and those that wait for a consumer. Pure.

Entries with the same hash have the same sticky key, or are chunks of the same message.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

import mmh3

from magnetar.broker.dispatch.entry_counts import EntryCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.base.position import Position
    from magnetar.cursor.ranges import Range
    from magnetar.wire.entries.entry import Chunk

STALE_MAX = 1000
"""Number of obsolete places in the heaps below which they are not cleaned up; beyond it, if they are the majority."""

C = TypeVar("C")
"""A consumer."""


class HashedEntries:
    """Entries, each with a hash greater than 0."""

    __slots__ = ("_counts", "_hashes", "_size")

    def __init__(self) -> None:
        """Create an empty set."""
        self._hashes = EntryCounts()
        self._counts: dict[int, int] = {}
        """Number of entries of each hash; hashes without entries are absent."""
        self._size = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._size

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the entries. The object must not change meanwhile."""
        return iter(self._hashes)

    def __getitem__(self, position: Position) -> int:
        """Return the hash of an entry; 0 if it is absent."""
        return self._hashes[position]

    def count(self, sticky_hash: int) -> int:
        """Return the number of entries of a hash."""
        return self._counts.get(sticky_hash, 0)

    def hashes(self) -> Iterable[int]:
        """Return the hashes with entries. The object must not change during the iteration."""
        return self._counts

    def add(self, ledger_id: int, hashes: list[tuple[int, int]]) -> None:
        """Add new entries of one ledger with their hashes."""
        self._hashes.add(ledger_id, hashes)
        self._size += len(hashes)
        counts = self._counts
        for _, sticky_hash in hashes:
            counts[sticky_hash] = counts.get(sticky_hash, 0) + 1

    def pop(self, position: Position) -> int:
        """Remove an entry; return its hash, 0 if it was absent."""
        sticky_hash = self._hashes.pop(position)
        if sticky_hash:
            self._uncount([sticky_hash])
        return sticky_hash

    def discard(self, deleted: Iterable[Range]) -> list[int]:
        """Remove the entries of ranges; return the hashes of the removed ones."""
        gone = self._hashes.discard(deleted)
        self._uncount(gone)
        return gone

    def _uncount(self, hashes: list[int]) -> None:
        self._size -= len(hashes)
        for sticky_hash in hashes:
            left = self._counts[sticky_hash] - 1
            if left:
                self._counts[sticky_hash] = left
            else:
                del self._counts[sticky_hash]


class ChunkHolders(Generic[C]):
    """The consumers that hold chunks of messages (PIP-37). Only they can put these messages together.

    A message is identified by a hash of its id. Messages with the same hash go to one consumer, which does no harm.
    """

    def __init__(self) -> None:
        """Start without chunks."""
        self._chunks = HashedEntries()
        """The chunks that consumers hold, with the hashes of their messages."""
        self._holders: dict[int, C] = {}
        """The consumer that holds the chunks of a message."""

    def __bool__(self) -> bool:
        """Whether a consumer holds a chunk."""
        return bool(self._holders)

    def holder(self, message: int) -> C | None:
        """Return the consumer that holds chunks of a message; None if there is none."""
        return self._holders.get(message)

    def sent(self, consumer: C, position: Position, message: int) -> None:
        """Record that a consumer got a chunk of a message."""
        self._chunks.add(position.ledger_id, [(position.entry_id, message)])
        self._holders[message] = consumer

    def given_back(self, position: Position) -> None:
        """Record that an entry, which may be a chunk, is no longer held."""
        self._release([self._chunks.pop(position)])

    def deleted(self, ranges: Iterable[Range]) -> None:
        """Record that entries, which may be chunks, were acknowledged."""
        self._release(self._chunks.discard(ranges))

    def _release(self, messages: Iterable[int]) -> None:
        for message in messages:
            if not self._chunks.count(message):
                self._holders.pop(message, None)


class UnfinishedMessages(Generic[C]):
    """The chunked messages (PIP-37) of which a consumer holds chunks and was not sent the last one, by sticky hash.

    The consumer keeps the hashes of these messages: no other could put them together. A message is identified by a hash
    of its id, and all its chunks should have the same key.
    """

    def __init__(self) -> None:
        """Start without messages."""
        self._chunks = HashedEntries()
        """The chunks that consumers hold, with the hashes of their messages."""
        self._unfinished: dict[int, int] = {}
        """The sticky hash of each unfinished message."""
        self._keepers: dict[int, tuple[C, set[int]]] = {}
        """For each sticky hash of unfinished messages, the consumer that holds their chunks, and the messages."""

    def __bool__(self) -> bool:
        """Whether a consumer holds a chunk."""
        return len(self._chunks) > 0

    def keeper(self, sticky_hash: int) -> C | None:
        """Return the consumer that keeps a hash; None if there is none."""
        kept = self._keepers.get(sticky_hash)
        return None if kept is None else kept[0]

    def sent(self, consumer: C, position: Position, sticky_hash: int, chunk: Chunk) -> list[int]:
        """Record that a consumer got a chunk of a message; return the hashes that it no longer keeps."""
        message = hash_of_chunked(chunk.message)
        is_first = not self._chunks.count(message)
        self._chunks.add(position.ledger_id, [(position.entry_id, message)])
        if chunk.is_last:
            return self._finish([message])
        if is_first:
            self._unfinished[message] = sticky_hash
            self._keepers.setdefault(sticky_hash, (consumer, set()))[1].add(message)
        return []

    def given_back(self, position: Position) -> list[int]:
        """Record that an entry, which may be a chunk, is no longer held; return the hashes that are no longer kept."""
        return self._released([self._chunks.pop(position)])

    def deleted(self, ranges: Iterable[Range]) -> list[int]:
        """Record that entries, which may be chunks, were acknowledged; return the hashes that are no longer kept."""
        return self._released(self._chunks.discard(ranges))

    def _released(self, messages: Iterable[int]) -> list[int]:
        return self._finish([message for message in messages if not self._chunks.count(message)])

    def _finish(self, messages: Iterable[int]) -> list[int]:
        """Forget messages, of which no chunk is held or the last one was sent; return the hashes without others."""
        freed: list[int] = []
        for message in messages:
            sticky_hash = self._unfinished.pop(message, 0)
            if sticky_hash:
                _, others = self._keepers[sticky_hash]
                others.discard(message)
                if not others:
                    del self._keepers[sticky_hash]
                    freed.append(sticky_hash)
        return freed


class WaitingEntries(Generic[C]):
    """Entries that wait for the consumer of their hash, in the order of the log.

    Acknowledged entries are removed. Each hash has a heap of its entries, and each consumer has a heap (its lane) with
    the first entry of each of its hashes. So a hash moves to another consumer in one step.
    """

    def __init__(self, select: Callable[[int], C | None], is_blocked: Callable[[int], bool]) -> None:
        """``select`` returns the consumer of a hash; ``is_blocked`` whether its entries have to wait nevertheless."""
        self._select = select
        self._is_blocked = is_blocked
        self._entries = HashedEntries()
        self._of_hash: dict[int, list[Position]] = {}
        """A heap for each hash; it may contain removed entries."""
        self._lanes: dict[C | None, list[tuple[Position, int]]] = {}
        """A heap for each consumer: the first entry of each of its hashes; some may be obsolete."""
        self._lane_of: dict[int, C | None] = {}
        """The lane of each hash. Blocked hashes are in none."""
        self._in_lanes = 0
        """Number of places in all lanes."""
        self._stale = 0
        """Upper bound of the number of removed entries in the heaps of hashes."""

    def __len__(self) -> int:
        """Return the number of waiting entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Position]:
        """Iterate over the waiting entries, unordered."""
        return iter(self._entries)

    def __contains__(self, position: Position) -> bool:
        """Return whether an entry waits."""
        return self._entries[position] > 0

    def has(self, sticky_hash: int) -> bool:
        """Return whether an entry of a hash waits."""
        return self._entries.count(sticky_hash) > 0

    def push(self, position: Position, sticky_hash: int) -> None:
        """Add an entry."""
        if position in self:
            return
        self._entries.add(position.ledger_id, [(position.entry_id, sticky_hash)])
        waiting = self._of_hash.get(sticky_hash)
        if waiting is None:
            self._of_hash[sticky_hash] = [position]
            self._line_up(sticky_hash)
        else:
            heapq.heappush(waiting, position)
            if waiting[0] is position and sticky_hash in self._lane_of:
                self._line_up(sticky_hash)

    def waited_for(self) -> Iterator[C]:
        """Yield the consumers with waiting entries, and possibly some whose entries were all acknowledged."""
        return (consumer for consumer, lane in self._lanes.items() if lane and consumer is not None)

    def take(self, consumer: C, through: Position, limit: int) -> list[tuple[Position, int]]:
        """Remove and return the first entries for a consumer with their hashes, up to ``through``, at most ``limit``.

        An entry stays if an earlier entry of its hash stays.
        """
        taken: list[tuple[Position, int]] = []
        lane = self._lanes.get(consumer)
        while lane and lane[0][0] <= through and len(taken) < limit:
            position, sticky_hash = heapq.heappop(lane)
            self._in_lanes -= 1
            waiting = self._of_hash.get(sticky_hash)
            if waiting is None or waiting[0] != position or self._lane_of.get(sticky_hash) is not consumer:
                continue
            if position not in self:
                self._line_up(sticky_hash)
            elif self._is_blocked(sticky_hash):
                del self._lane_of[sticky_hash]
            else:
                self._entries.pop(position)
                heapq.heappop(waiting)
                self._line_up(sticky_hash)
                taken.append((position, sticky_hash))
        return taken

    def unblocked(self, sticky_hash: int) -> None:
        """Record that a hash is no longer blocked."""
        if sticky_hash not in self._lane_of:
            self._line_up(sticky_hash)

    def reassign(self, hashes: Iterable[int]) -> None:
        """Record that the owners of these hashes, or whether they are blocked, may have changed."""
        for sticky_hash in hashes:
            if sticky_hash in self._of_hash:
                self._line_up(sticky_hash)
        if self._in_lanes > 2 * len(self._of_hash) + STALE_MAX:
            self.reassign_all()

    def reassign_all(self) -> None:
        """Record that the owners of all hashes, or whether they are blocked, may have changed."""
        self._lanes.clear()
        self._lane_of.clear()
        self._in_lanes = 0
        for sticky_hash in tuple(self._of_hash):
            self._line_up(sticky_hash)

    def left(self, consumer: C) -> None:
        """Remove a consumer; its hashes are reassigned before the next ``take``."""
        self._in_lanes -= len(self._lanes.pop(consumer, ()))

    def discard(self, deleted: Iterable[Range]) -> None:
        """Remove acknowledged entries."""
        self._stale += len(self._entries.discard(deleted))
        if self._stale > max(STALE_MAX, len(self)):
            self._sort_out()

    def _line_up(self, sticky_hash: int) -> None:
        """Put the first entry of a hash into the lane of its consumer; drop removed entries before it."""
        waiting = self._of_hash.get(sticky_hash)
        while waiting and waiting[0] not in self:
            heapq.heappop(waiting)
            self._stale -= 1
        if not waiting:
            self._of_hash.pop(sticky_hash, None)
            self._lane_of.pop(sticky_hash, None)
            return
        owner = self._lane_of[sticky_hash] = self._select(sticky_hash)
        heapq.heappush(self._lanes.setdefault(owner, []), (waiting[0], sticky_hash))
        self._in_lanes += 1

    def _sort_out(self) -> None:
        """Rebuild the heaps without removed entries."""
        self._of_hash.clear()
        self._stale = 0
        for position in sorted(self._entries):
            self._of_hash.setdefault(self._entries[position], []).append(position)
        self.reassign_all()


def hash_of_chunked(chunked: str) -> int:
    """Return a hash, at least 1, of the id of a chunked message."""
    return mmh3.hash(chunked, signed=False) or 1
