"""Limit of the memory for entries that are read from the disk for dispatch. Pure.

Each subscription or link reads ahead by one read and keeps the entries that it cannot send yet. When others wait for
memory, the entries kept for longest are dropped, and read again when they can be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.memory_share import Share

if TYPE_CHECKING:
    from collections.abc import Callable


class ReadsInFlight(Share):
    """The share of all reads. ``used`` exceeds ``limit`` only by an entry larger than the maximum of a read."""

    __slots__ = ("_kept", "_waiting", "read_bytes")

    def __init__(self, limit: int, read_bytes: int) -> None:
        """Allow ``limit`` bytes; a read counts as ``read_bytes`` until its size is known."""
        super().__init__(limit)
        self.read_bytes = read_bytes
        self._waiting: dict[Read, None] = {}
        """Waiting reads, in order."""
        self._kept: dict[Read, None] = {}
        """Reads that keep entries; the one that has kept them for longest is first."""

    def ask(self, read: Read) -> bool:
        """Start ``read`` if there is room, otherwise queue it; return whether it may start."""
        if self._waiting or not self._has_room():
            self._waiting[read] = None
            return False
        self._begin(read)
        return True

    def is_waiting(self, read: Read) -> bool:
        """Whether ``read`` waits."""
        return read in self._waiting

    def set_size(self, read: Read, size: int) -> None:
        """Record the bytes that a finished ``read`` keeps, and start others if there is room."""
        self.used += size - read.size
        read.size = size
        self._kept.pop(read, None)
        if size:
            self._kept[read] = None
        while self._waiting and self._has_room():
            first = next(iter(self._waiting))
            del self._waiting[first]
            self._begin(first)
            first.may_begin()

    def leave(self, read: Read) -> None:
        """Remove ``read``."""
        self._waiting.pop(read, None)
        self.set_size(read, 0)

    def _has_room(self) -> bool:
        """Return whether one more read fits; drops kept entries as far as needed."""
        while self.used and self.used + self.read_bytes > self.limit:
            kept = next(iter(self._kept), None)
            if kept is None:
                return False
            del self._kept[kept]
            self.used -= kept.size
            kept.size = 0
            kept.forget()
        return True

    def _begin(self, read: Read) -> None:
        read.size = self.read_bytes
        self.used += self.read_bytes


class Read:
    """The read of one subscription or link."""

    __slots__ = ("_reads", "forget", "may_begin", "size")

    def __init__(self, reads: ReadsInFlight, may_begin: Callable[[], None], forget: Callable[[], None]) -> None:
        """Create an idle read. ``may_begin`` is called after a wait for room, ``forget`` to drop kept entries."""
        self._reads = reads
        self.may_begin = may_begin
        self.forget = forget
        self.size = 0
        """Bytes of kept entries, or reserved for the read."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for room."""
        return self._reads.is_waiting(self)

    def ask(self) -> bool:
        """Request room; return whether there is some. If not, ``may_begin`` is called later."""
        return self._reads.ask(self)

    def keep(self, size: int) -> None:
        """Record that the read has finished or that entries were sent, and that ``size`` bytes are kept."""
        self._reads.set_size(self, size)

    def close(self) -> None:
        """Release everything and stop waiting."""
        self._reads.leave(self)
