"""The newest segment as a file that is written to, and any segment as a file that is read.

Room on the disk is set aside for a segment while it is written to: writing there is cheaper, as the file system has no
room to find.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from magnetar.base.durable import storage_error
from magnetar.base.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from magnetar.base.world import File, Files
    from magnetar.ledger.medium.interface import GroupListener

_FREE_TIMES = 8
"""How many times its size a segment needs to be free on the disk before it has all of it set aside."""

_PART_BYTES = 4096
"""Bytes of a part, on average, that is written from where it is."""

_PARTS_JOINED = 512
"""Smaller parts that are joined."""


class LocalOpenSegment:
    """See OpenSegment. Used by one thread, which each group keeps until it is written and synced."""

    def __init__(self, path: Path, file: File, listener: GroupListener) -> None:
        """Continue ``file`` at its end; all of the file must be synced."""
        self._path = path
        self._file = file
        self._listener = listener
        self._size = file.size()
        """Bytes that were acknowledged."""

    def append(self, parts: Sequence[bytes], *, sync: bool) -> None:
        """See OpenSegment."""
        try:
            self._size += self._write(parts)
            if sync:
                self._sync()
        except StorageError as error:
            self._listener.failed(error)
        else:
            self._listener.acknowledged()

    async def settled(self) -> None:
        """See OpenSegment."""

    async def seal(self, before: Sequence[bytes], last: Sequence[bytes]) -> None:
        """See OpenSegment."""
        size = self._write(before)
        self._sync()  # ``last`` vouches for everything before it, so it must not reach the disk alone
        size += self._write(last)
        self._size += size
        with suppress(OSError):  # it is only room
            self._file.truncate(self._size)
        self._sync()
        self._file.close()

    async def close(self) -> None:
        """See OpenSegment."""
        self._file.close()

    def _write(self, parts: Sequence[bytes]) -> int:
        """Write at the end and return how many bytes; raises StorageShortageError with the file cut back."""
        size = sum(map(len, parts))
        try:
            self._file.write(_gathered(parts, size))
        except OSError as error:
            self._cut_back()
            raise storage_error(self._path, error) from error
        return size

    def _sync(self) -> None:
        """Return once everything written is on the disk; raises StorageError, and then nothing can be promised."""
        try:
            self._file.sync()
        except OSError as error:
            # Even ENOSPC here leaves unknown what reached the disk: the kernel may have dropped the dirty pages.
            message = f"{self._path}: cannot sync: {error}"
            raise StorageError(message) from error

    def _cut_back(self) -> None:
        """Remove what a failed write left, durably: it must not come back as if it had been written."""
        try:
            self._file.truncate(self._size)
            self._file.sync()
        except OSError as error:
            message = f"{self._path}: cannot cut back to {self._size} bytes: {error}"
            raise StorageError(message) from error


class LocalSegmentReader:
    """See SegmentReader."""

    def __init__(self, path: Path, file: File) -> None:
        """Read ``file``."""
        self._path = path
        self._file = file

    async def size(self) -> int:
        """See SegmentReader."""
        return self._file.size()

    async def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """See SegmentReader."""
        try:
            return [self._file.read_at(offset, length) for offset, length in places]
        except OSError as error:
            message = f"{self._path}: cannot read: {error}"
            raise StorageError(message) from error

    def close(self) -> None:
        """See SegmentReader."""
        self._file.close()


def set_room_aside(files: Files, directory: Path, file: File, room: int) -> None:
    """Have the disk keep ``room`` bytes for a segment, unless that is much of what is free."""
    if files.free_bytes(directory) >= _FREE_TIMES * room:
        size = file.size()
        try:
            file.set_aside(room)
        except OSError:  # the file grows as it is written; a part that was set aside is given back
            file.truncate(size)


def _gathered(parts: Sequence[bytes], size: int) -> Sequence[bytes]:
    """The same bytes in fewer parts where they are small.

    Large ones are not copied: a group in one piece is megabytes of fresh memory, which costs more than writing it.
    """
    if size >= _PART_BYTES * len(parts):
        return parts
    return [b"".join(parts[start : start + _PARTS_JOINED]) for start in range(0, len(parts), _PARTS_JOINED)]
