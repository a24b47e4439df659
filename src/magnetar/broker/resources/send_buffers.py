"""What is written for clients and they have not read: how much of it there may be, and who waits for room. Pure.

Each connection holds at most ``connectionSendBufferBytes``, and at most what is free in all. What is dispatched at once
must fit as well, or be small. So clients that do not read take no more than the share, and one that reads gets messages
all the same. Large entries wait for room; meanwhile clients that hold much and read nothing are dropped. A quarter is
kept for subscriptions whose consumers have read a large entry before, and these go first.
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
"""Seconds in which a client has to read STALL_BYTES while others wait for the memory that it holds."""

WAIT_MAX_S = 5.0
"""Seconds after which an entry that waits is sent although there is no room: clients that read slowly take it all."""


class SendBuffers(Share):
    """The share of all connections."""

    __slots__ = ("_known", "_newest_is_next", "_unknown", "connection_max", "promised")

    def __init__(self, limit: int, connection_max: int) -> None:
        """Allow ``limit`` bytes in all, and ``connection_max`` for each connection."""
        super().__init__(limit)
        self.connection_max = connection_max
        self._known: dict[Waiting, None] = {}
        """Who waits for room, of those that were sent a large entry before and ask again, in order."""
        self._unknown: dict[Waiting, None] = {}
        """The others that wait, in order."""
        self._newest_is_next = True
        """Whether the newest of the others is let on next, or the oldest: in turn."""
        self.promised = 0
        """Bytes of the entries that are about to be sent because there is room for them now."""

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for room."""
        return bool(self._known or self._unknown)

    def limit_of(self, waiting: Waiting) -> int:
        """Return the part of the limit that ``waiting`` may use: three quarters before it was sent a large entry."""
        return self.limit if waiting.is_known else self.limit // 4 * 3

    def wait(self, waiting: Waiting) -> None:
        """Have ``waiting`` called when there is room for what it wants to send."""
        queue = self._known if waiting.is_known else self._unknown
        queue[waiting] = None

    def is_waiting(self, waiting: Waiting) -> bool:
        """Whether ``waiting`` waits."""
        return waiting in self._known or waiting in self._unknown

    def leave(self, waiting: Waiting) -> None:
        """Forget one who waits."""
        self._known.pop(waiting, None)
        self._unknown.pop(waiting, None)

    def drained(self) -> None:
        """Call those that wait while there is room for each."""
        while self.is_waited_for:
            is_newest = self._newest_is_next and not self._known
            waiting = next(reversed(self._unknown) if is_newest else iter(self._known or self._unknown))
            held = self.used + self.promised
            if held and held + waiting.size > self.limit_of(waiting):
                return
            self._let_on(waiting)

    def look(self, now: float) -> None:
        """Let on who has been the first in order for WAIT_MAX_S; to be called every now and then."""
        for queue in (self._known, self._unknown):
            waiting = next(iter(queue), None)
            if waiting is None:
                continue
            if waiting.since is None:
                waiting.since = now
            elif now - waiting.since >= WAIT_MAX_S:
                self._let_on(waiting)

    def _let_on(self, waiting: Waiting) -> None:
        if waiting in self._unknown:
            self._newest_is_next = not self._newest_is_next
        self.leave(waiting)
        self.promised += waiting.size
        waiting.let_on()


class Waiting:
    """One subscription, or link, as it dispatches."""

    __slots__ = ("_buffers", "_has_room", "_ready", "is_known", "since", "size")

    def __init__(self, buffers: SendBuffers, ready: Callable[[], None]) -> None:
        """One that waits for nothing; ``ready`` is called when it may ask again.

        It must not ask at once, but in a turn of its own, and call ``end_turn`` at the end of that.
        """
        self._buffers = buffers
        self._ready = ready
        self._has_room = False
        """Whether room was found for the entry that it waited with."""
        self.is_known = False
        """Whether a large entry was sent, so that whoever asks for more must have read it."""
        self.size = 0
        """Bytes of the entry that it waits with."""
        self.since: float | None = None
        """When somebody first looked at it while it was the first that waits."""

    def fitting(self, entries: Sequence[bytes]) -> int:
        """Return how many of the entries, from the first on, may be sent now; 0: ``ready`` is called when one may."""
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
        """Note that an entry of ``size`` bytes was sent."""
        if size > SMALL_BYTES:
            self.is_known = True

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for room."""
        return self._buffers.is_waiting(self)

    def let_on(self) -> None:
        """There is room."""
        self._has_room = True
        self.since = None
        self._ready()

    def end_turn(self) -> None:
        """Let others on if nothing was sent in the room that was found."""
        if self._has_room:
            self._give_back()
            self._buffers.drained()

    def close(self) -> None:
        """Wait no longer."""
        self._buffers.leave(self)
        self.end_turn()

    def _give_back(self) -> None:
        if self._has_room:
            self._has_room = False
            self._buffers.promised -= self.size


class Unsent:
    """What one connection was sent and has not read.

    What is written in one turn is one piece of memory until all of it is sent, so a piece counts as a whole until then.
    """

    __slots__ = ("_buffers", "_left", "_left_then", "_looked_at", "_pieces", "_turn", "size")

    def __init__(self, buffers: SendBuffers) -> None:
        """Nothing."""
        self._buffers = buffers
        self.size = 0
        """Bytes of memory that it takes, as far as the transport was asked."""
        self._pieces: deque[int] = deque()
        """Sizes of what was given to the transport and is not all sent, the oldest first."""
        self._turn = 0
        """Bytes that were written in this turn, and not given to the transport yet."""
        self._looked_at: float | None = None
        self._left_then = 0
        self._left = 0
        """Bytes that the transport has not sent."""

    @property
    def is_over(self) -> bool:
        """Whether the connection must be sent no more messages for now."""
        buffers, size = self._buffers, self.size
        return size > buffers.connection_max or (size > SMALL_BYTES and size > buffers.room)

    def write(self, size: int) -> bool:
        """Count ``size`` bytes in; return ``is_over``."""
        buffers = self._buffers
        buffers.used += size
        self._turn += size
        self.size = size = self.size + size
        return size > buffers.connection_max or (size > SMALL_BYTES and size > buffers.room)

    def flushed(self, left: int) -> bool:
        """Note that what was written in this turn was given to the transport as one piece; return ``is_over``.

        The transport has ``left`` bytes left to send.
        """
        self._pieces.append(self._turn)
        self._turn = 0
        if left or self._buffers.is_waited_for:
            self.left(left)
            return self.is_over
        self._pieces.clear()
        self._left = 0
        self._buffers.used -= self.size
        self.size = 0
        return False

    def left(self, size: int) -> None:
        """Note that the transport has ``size`` bytes left to send."""
        pieces, kept, buffers = self._pieces, self.size - self._turn, self._buffers
        while pieces and kept - pieces[0] >= size:
            kept -= pieces.popleft()
        self._left = size
        buffers.used += kept + self._turn - self.size
        self.size = kept + self._turn
        if buffers.is_waited_for:
            buffers.drained()

    def close(self) -> None:
        """Forget everything: the connection is gone."""
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
