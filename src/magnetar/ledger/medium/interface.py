"""The segment medium: what the shared log needs of whatever keeps its segments.

A segment is a sequence of bytes with a number. It grows at its end, group by group, until it is sealed; afterwards it
never changes. The medium knows nothing of what is in it. A log has one writer, and writes to its newest segment only.

Three kinds of errors tell the writer how to go on:

* ``StorageShortageError``: not now (a full disk, too few storage nodes). Nothing of the failed call remains, and what
  was acknowledged is untouched. The same call may succeed later.
* ``StoreFencedError``: never again. Another writer has taken the log over; what it finds there is the truth.
* Any other ``StorageError``: what the medium has is unknown. The log has to be opened again before it is written.

A medium that blocks (``blocks``) does all its work inside of the call: its coroutines never suspend and are run on
threads (``blocking.py``), and a group is acknowledged before ``append`` returns. The coroutines of any other medium
run on the event loop, on which it also reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.errors import StorageError, StorageShortageError


class GroupListener(Protocol):
    """The writer of a segment, who is told what became of the groups that it appended."""

    def acknowledged(self) -> None:
        """The oldest group in flight is durable, or only written where it need not be synced."""
        ...

    def failed(self, error: StorageError) -> None:
        """None of the groups in flight becomes durable: ``error`` says why, and how to go on.

        Called once for all of them. After a ``StorageShortageError`` nothing of them remains, and the segment takes the
        next group behind the last one that was acknowledged. A medium whose files cannot be written to after an error
        goes on in another file behind the same segment.
        """
        ...


class OpenSegment(Protocol):
    """The newest segment of a log, which takes groups."""

    def append(self, parts: Sequence[bytes], *, sync: bool) -> None:
        """Write ``parts`` at the end, as one group; the listener is told what becomes of it, maybe before the return.

        Several groups may be in flight; they are acknowledged in the order in which they were appended. How many there
        are, and how large, is for the caller to limit. Without ``sync`` an acknowledged group may be lost with the
        power, though not with the process. A group that is not acknowledged may be found after a crash: whole, torn, or
        not at all. Groups behind one that is not found whole do not count.
        """
        ...

    async def settled(self) -> None:
        """Return when no group is in flight."""
        ...

    async def seal(self, before: Sequence[bytes], last: Sequence[bytes]) -> None:
        """Append ``before`` and, when everything up to there is synced, ``last``, with which the segment is complete.

        No group may be in flight. Nothing else must be called afterwards, and everything is synced. Raises
        ``StorageShortageError`` with the segment as it was: it takes groups, and may be sealed again.
        """
        ...

    async def close(self) -> None:
        """Let go of the segment as it is, for whoever opens the log next."""
        ...


class SegmentReader(Protocol):
    """A segment that is being read. It stays readable if it is removed meanwhile."""

    async def size(self) -> int:
        """Length in bytes."""
        ...

    async def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return what is at these places (offset, length), as stored; shorter where the segment ends before.

        A medium that is far away fetches them together. Raises ``StorageError``.
        """
        ...

    def close(self) -> None:
        """Release what the reading took."""
        ...


class SegmentMedium(Protocol):
    """All segments of one log, and a few named notes beside them.

    ``segments``, ``read``, ``name_of`` and ``note`` need no ``open`` before, and never change anything.
    """

    @property
    def blocks(self) -> bool:
        """Whether calls block the thread that they are made on, which must not be the event loop's."""
        ...

    def name_of(self, found: int | str) -> str:
        """Return where an operator finds a segment, by its number, or a note, by its name; for messages."""
        ...

    async def open(self) -> None:
        """Take the log over, which is made if it is missing: no earlier writer can append or seal from now on.

        What a crash left half made of the medium's own is cleared away. Segments keep their bytes: the end of the
        newest one is what can be found of it now, and counts only after ``resume`` or ``confirm_seal``.
        """
        ...

    async def segments(self) -> list[int]:
        """Return the numbers of the segments, ascending."""
        ...

    async def read(self, sequence: int) -> SegmentReader:
        """Begin to read a segment; raises ``SegmentRemovedError`` if it was removed."""
        ...

    async def create(self, sequence: int, head: bytes, listener: GroupListener) -> OpenSegment:
        """Begin segment ``sequence``, the next one, with ``head``, durably on return.

        After a crash it may be there without all of ``head``; it may be removed then and created again. Raises
        ``StorageShortageError``, after which it can be tried again.
        """
        ...

    async def resume(self, sequence: int, kept: bytes, listener: GroupListener) -> OpenSegment:
        """Recover the tail: go on with the newest segment, which is not sealed, behind ``kept``, durably on return.

        ``kept`` is the segment as it was read, without what a crash tore off its end. It need not have been durable
        when it was read (a cache may have had it, or a minority of the storage nodes). Raises ``StorageShortageError``,
        with the segment as it was found.
        """
        ...

    async def confirm_seal(self, sequence: int, offset: int, last: bytes) -> None:
        """See that the newest segment, which was found to be sealed, is so durably.

        ``last`` is what it was sealed with, at ``offset``. It may have been durable only in part: everything before it
        was synced. Raises ``StorageShortageError``.
        """
        ...

    async def remove(self, sequence: int) -> None:
        """Delete a segment. Nobody may begin to read it any more, though who does so already goes on.

        After an error, or a crash, ``open`` may find it again.
        """
        ...

    async def note(self, name: str) -> bytes | None:
        """Return a note; None if there is none of that name."""
        ...

    async def put_note(self, name: str, content: bytes) -> None:
        """Keep a note, durably on return; after a crash it is the old one or the new one, as a whole."""
        ...

    async def remove_note(self, name: str) -> None:
        """Forget a note, durably on return, if there is one."""
        ...

    @property
    def watches_shortage(self) -> bool:
        """Whether ``shortage`` finds out that there is one, and that it has passed; otherwise it never tells of any."""
        ...

    def shortage(self, *, is_short: bool) -> StorageShortageError | None:
        """Return why only what is urgent should be written for now; None while there is enough.

        Called every second or so, on another thread than the event loop's if the medium blocks. ``is_short`` is whether
        there was a shortage before: one has to pass clearly, so that publishing does not flutter, and the room held
        back is taken again first.
        """
        ...

    def take_reserve(self) -> None:
        """Hold room back for what is urgent, if that is possible."""
        ...

    def give_reserve(self) -> bool:
        """Give the room back that is held, also by an earlier run; whether there was any."""
        ...
