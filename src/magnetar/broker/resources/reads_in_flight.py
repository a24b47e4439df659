"""Entries that are read from the disk for dispatch: how many bytes of them may be in memory at the same time. Pure.

Each subscription, or link, reads ahead what one read brings, and keeps what it cannot send yet. When others wait for
the memory, what was kept for longest is forgotten, and read again when it can be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.memory_share import Share

if TYPE_CHECKING:
    from collections.abc import Callable


class ReadsInFlight(Share):
    """The share of all reads. ``used`` exceeds ``limit`` only by an entry that is larger than a read should be."""

    __slots__ = ("_kept", "_waiting", "read_bytes")

    def __init__(self, limit: int, read_bytes: int) -> None:
        """Allow ``limit`` bytes; a read is taken for ``read_bytes`` until it is known what it brought."""
        super().__init__(limit)
        self.read_bytes = read_bytes
        self._waiting: dict[Read, None] = {}
        """Who waits to read, in order."""
        self._kept: dict[Read, None] = {}
        """Who keeps something, the one that has kept it for longest first."""

    def ask(self, read: Read) -> bool:
        """Let ``read`` begin if there is room, else have it wait; return whether it may begin."""
        if self._waiting or not self._has_room():
            self._waiting[read] = None
            return False
        self._begin(read)
        return True

    def is_waiting(self, read: Read) -> bool:
        """Whether ``read`` waits."""
        return read in self._waiting

    def set_size(self, read: Read, size: int) -> None:
        """Note how much ``read`` keeps, now that it has finished, and let others begin if there is room."""
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
        """Forget ``read``."""
        self._waiting.pop(read, None)
        self.set_size(read, 0)

    def _has_room(self) -> bool:
        """Whether one more read fits; whatever is kept is forgotten for it, as far as that is needed."""
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
    """What one subscription reads."""

    __slots__ = ("_reads", "forget", "may_begin", "size")

    def __init__(self, reads: ReadsInFlight, may_begin: Callable[[], None], forget: Callable[[], None]) -> None:
        """Nothing is read. ``may_begin`` is called if it had to wait, ``forget`` if it has to forget what it kept."""
        self._reads = reads
        self.may_begin = may_begin
        self.forget = forget
        self.size = 0
        """Bytes of what is kept, or may be read."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for room."""
        return self._reads.is_waiting(self)

    def ask(self) -> bool:
        """Ask for room; return whether there is some. If not, ``may_begin`` is called when there is."""
        return self._reads.ask(self)

    def keep(self, size: int) -> None:
        """Note that the read has finished, or that some of it was sent, and ``size`` bytes are kept."""
        self._reads.set_size(self, size)

    def close(self) -> None:
        """Keep nothing and wait no longer."""
        self._reads.leave(self)
