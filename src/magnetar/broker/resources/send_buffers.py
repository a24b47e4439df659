"""Limit of the memory for data that clients have not read yet, and the queue of senders that wait for it. Pure.

Each connection holds at most ``connectionSendBufferBytes``, and at most the free part of the share. An entry must fit
in that, or be small. So clients that do not read use no more than the share, and clients that read still get messages.
Large entries wait for room. Meanwhile, clients that hold much and read nothing are disconnected. A quarter of the share
is reserved for subscriptions whose consumers have read a large entry before; these are first in the queue.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING

from magnetar.base.memory_share import SMALL_BYTES, STALL_BYTES, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RECEIVE_STALL_S = 2.0
"""Seconds within which a client must read STALL_BYTES while others wait for its memory."""

WAIT_MAX_S = 5.0
"""Seconds after which a waiting entry is sent without room, because slow readers hold all memory."""


class SendBuffers(Share):
    """The share of all connections."""

    __slots__ = ("_known", "_newest_is_next", "_unknown", "connection_max", "promised")

    def __init__(self, limit: int, connection_max: int) -> None:
        """Allow ``limit`` bytes in all, and ``connection_max`` for each connection."""
        super().__init__(limit)
        self.connection_max = connection_max
        self._known: dict[Waiting, None] = {}
        """Waiting senders that sent a large entry before, in order."""
        self._unknown: dict[Waiting, None] = {}
        """Other waiting senders, in order."""
        self._newest_is_next = True
        """Whether the newest of the other senders is admitted next, or the oldest; alternates."""
        self.promised = 0
        """Bytes of admitted entries that are not sent yet."""

    @property
    def has_waiting(self) -> bool:
        """Whether a sender waits for room."""
        return bool(self._known or self._unknown)

    def limit_of(self, waiting: Waiting) -> int:
        """Return the part of the limit for ``waiting``: three quarters before it has sent a large entry."""
        return self.limit if waiting.is_known else self.limit // 4 * 3

    def wait(self, waiting: Waiting) -> None:
        """Queue ``waiting``; it is called when there is room for its entry."""
        queue = self._known if waiting.is_known else self._unknown
        queue[waiting] = None

    def is_waiting(self, waiting: Waiting) -> bool:
        """Whether ``waiting`` waits."""
        return waiting in self._known or waiting in self._unknown

    def leave(self, waiting: Waiting) -> None:
        """Remove a sender from the queue."""
        self._known.pop(waiting, None)
        self._unknown.pop(waiting, None)

    def drained(self) -> None:
        """Call the waiting senders while there is room for each."""
        while self.has_waiting:
            is_newest = self._newest_is_next and not self._known
            waiting = next(reversed(self._unknown) if is_newest else iter(self._known or self._unknown))
            held = self.used + self.promised
            if held and held + waiting.size > self.limit_of(waiting):
                return
            self._grant_room(waiting)

    def admit_overdue(self, now: float) -> None:
        """Admit a sender that has been the first in the queue for WAIT_MAX_S. Call it periodically."""
        for queue in (self._known, self._unknown):
            waiting = next(iter(queue), None)
            if waiting is None:
                continue
            if waiting.since is None:
                waiting.since = now
            elif now - waiting.since >= WAIT_MAX_S:
                self._grant_room(waiting)

    def _grant_room(self, waiting: Waiting) -> None:
        if waiting in self._unknown:
            self._newest_is_next = not self._newest_is_next
        self.leave(waiting)
        self.promised += waiting.size
        waiting.grant_room()


class Waiting:
    """A sender: the dispatch of one subscription or link."""

    __slots__ = ("_buffers", "_has_room", "_ready", "is_known", "since", "size")

    def __init__(self, buffers: SendBuffers, ready: Callable[[], None]) -> None:
        """Create a sender that does not wait; ``ready`` is called when it may ask again.

        It must ask in a later turn of its own, and call ``end_turn`` at the end of that turn.
        """
        self._buffers = buffers
        self._ready = ready
        self._has_room = False
        """Whether there is room for its waiting entry."""
        self.is_known = False
        """Whether it has sent a large entry; if it asks for more, its consumers must have read that entry."""
        self.size = 0
        """Bytes of its waiting entry."""
        self.since: float | None = None
        """Time at which it was first seen at the front of the queue."""

    def fitting(self, entries: Sequence[bytes]) -> int:
        """Return how many of the first entries may be sent now; 0: ``ready`` is called later."""
        buffers = self._buffers
        sizes = [len(entry) for entry in entries]
        has_room = self._has_room
        self._give_back()
        room = max(buffers.limit_of(self) - buffers.used - buffers.promised, SMALL_BYTES)
        if has_room:
            room = max(room, sizes[0])
        count = bisect_right(list(accumulate(sizes)), room)
        if count:
            self.sent(sizes[0])
        else:
            self.size = sizes[0]
            buffers.wait(self)
        return count

    def sent(self, size: int) -> None:
        """Record that an entry of ``size`` bytes was sent."""
        if size > SMALL_BYTES:
            self.is_known = True

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for room."""
        return self._buffers.is_waiting(self)

    def grant_room(self) -> None:
        """Note that there is room for the waiting entry."""
        self._has_room = True
        self.since = None
        self._ready()

    def end_turn(self) -> None:
        """Admit others if the room was not used."""
        if self._has_room:
            self._give_back()
            self._buffers.drained()

    def close(self) -> None:
        """Stop waiting."""
        self._buffers.leave(self)
        self.end_turn()

    def _give_back(self) -> None:
        if self._has_room:
            self._has_room = False
            self._buffers.promised -= self.size


class Unsent:
    """Bytes that one connection was sent and has not read.

    The data written in one turn is one block of memory until all of it is sent, and counts as a whole until then.
    """

    __slots__ = ("_buffers", "_left", "_left_then", "_looked_at", "_pieces", "_turn", "size")

    def __init__(self, buffers: SendBuffers) -> None:
        """Start at 0."""
        self._buffers = buffers
        self.size = 0
        """Bytes of memory in use, according to the transport."""
        self._pieces: deque[int] = deque()
        """Sizes of the blocks in the transport that are not fully sent, oldest first."""
        self._turn = 0
        """Bytes written in this turn and not in the transport yet."""
        self._looked_at: float | None = None
        self._left_then = 0
        self._left = 0
        """Bytes in the transport."""

    @property
    def is_over(self) -> bool:
        """Whether the connection must get no more messages for now."""
        buffers, size = self._buffers, self.size
        return size > buffers.connection_max or (size > SMALL_BYTES and size > buffers.room)

    def write(self, size: int) -> bool:
        """Add ``size`` bytes; return ``is_over``."""
        buffers = self._buffers
        buffers.used += size
        self._turn += size
        self.size = size = self.size + size
        return size > buffers.connection_max or (size > SMALL_BYTES and size > buffers.room)

    def flushed(self, left: int) -> bool:
        """Record that the data of this turn was passed to the transport as one block; return ``is_over``.

        The transport has ``left`` unsent bytes.
        """
        buffers = self._buffers
        if left or buffers.has_waiting:
            self._pieces.append(self._turn)
            self._turn = 0
            self.left(left)
            return self.is_over
        self._pieces.clear()
        buffers.used -= self.size
        self.size = self._turn = self._left = 0
        return False

    def left(self, size: int) -> None:
        """Record that the transport has ``size`` unsent bytes."""
        pieces, kept, buffers = self._pieces, self.size - self._turn, self._buffers
        while pieces and kept - pieces[0] >= size:
            kept -= pieces.popleft()
        self._left = size
        buffers.used += kept + self._turn - self.size
        self.size = kept + self._turn
        if buffers.has_waiting:
            buffers.drained()

    def close(self) -> None:
        """Release everything: the connection is closed."""
        self._turn = 0
        self._pieces.clear()
        self._buffers.used -= self.size
        self.size = 0
        self.left(0)

    def has_stalled(self, now: float) -> bool:
        """Whether the client holds more than SMALL_BYTES and has not read STALL_BYTES in the last RECEIVE_STALL_S."""
        if self.size <= SMALL_BYTES:
            self._looked_at = None
            return False
        if self._looked_at is not None:
            if now - self._looked_at < RECEIVE_STALL_S:
                return False
            if self._left_then - self._left < STALL_BYTES:
                return True
        self._looked_at, self._left_then = now, self._left
        return False
