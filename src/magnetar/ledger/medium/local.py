"""Segments as files in one directory of this machine's disk.

A segment is named ``segment-<sequence, 16 digits>.log``. The directory's lock keeps a second writer away.

The page cache is not trusted when a log is opened. After a failed fsync Linux marks the pages clean: they are
readable, they are not on the disk, and the next fsync succeeds without them (ADR 12). Whatever was read from the newest
segment is therefore written again before anything depends on it: an unsealed segment goes to a new file that replaces
it, and the end of a sealed one is cut off and appended again. All older bytes are proven: the next segment is created
only after a successful fsync of the end of the one before, which was written only after one of everything else in it.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from magnetar.base.durable import COPY_SUFFIX, storage_error, write_again
from magnetar.base.errors import DiskFullError, SegmentRemovedError, StorageError
from magnetar.ledger.medium.local_segment import LocalOpenSegment, LocalSegmentReader, set_room_aside
from magnetar.ledger.medium.space import Space

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from magnetar.base.errors import StorageShortageError
    from magnetar.base.world import Files
    from magnetar.ledger.medium.interface import GroupListener

_NAME = re.compile(r"segment-(\d{16})\.log")


def segment_path(directory: Path, sequence: int) -> Path:
    """The file of a segment."""
    return directory / f"segment-{sequence:016d}.log"


def segment_sequences(names: Sequence[str]) -> list[int]:
    """The segments among the file names of a directory, oldest first; other files are none of ours."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


class LocalMedium:
    """See SegmentMedium. Written by one thread; others may read."""

    blocks = True

    def __init__(
        self, directory: Path, files: Files, *, room: int = 0, reserve_bytes: int = 0, low_water_bytes: int = 0
    ) -> None:
        """Keep segments in ``directory``, each with ``room`` bytes set aside while it is written to.

        ``reserve_bytes`` are held back for what is urgent when the disk is full. Less than ``low_water_bytes`` of free
        space is a shortage.
        """
        self._directory = directory
        self._files = files
        self._room = room
        self._space = Space(files, directory, reserve_bytes, low_water_bytes)
        self._removed: set[int] = set()
        """Segments that must not be opened any more, which would create their files again; not iterated."""
        self._paths: dict[int, Path] = {}
        """Of the segments that were read: to make a path takes as long as to open it."""
        self._lock = threading.Lock()
        """Keeps a segment from being removed while it is being opened."""

    def name_of(self, found: int | str) -> str:
        """See SegmentMedium."""
        return str(segment_path(self._directory, found) if isinstance(found, int) else self._directory / found)

    async def open(self) -> None:
        """See SegmentMedium."""
        files, directory = self._files, self._directory
        try:
            files.make_directory(directory)
            files.sync_directory(directory.parent)  # a segment is as durable as the name of its directory
            for name in files.list(directory):
                if name.endswith(COPY_SUFFIX):
                    files.remove(directory / name)
            files.sync_directory(directory)
        except OSError as error:
            raise storage_error(directory, error) from error

    async def segments(self) -> list[int]:
        """See SegmentMedium."""
        return segment_sequences(self._names())

    async def read(self, sequence: int) -> LocalSegmentReader:
        """See SegmentMedium."""
        path = self._paths.get(sequence)
        if path is None:
            path = self._paths[sequence] = segment_path(self._directory, sequence)
        with self._lock:
            if sequence in self._removed:
                message = f"{path} was removed"
                raise SegmentRemovedError(message)
            try:
                return LocalSegmentReader(path, self._files.open(path))
            except OSError as error:
                message = f"{path}: cannot read: {error}"
                raise StorageError(message) from error

    async def create(self, sequence: int, head: bytes, listener: GroupListener) -> LocalOpenSegment:
        """See SegmentMedium."""
        files, path = self._files, segment_path(self._directory, sequence)
        try:
            file = files.open(path)
        except OSError as error:
            raise storage_error(path, error) from error
        try:
            file.truncate(0)  # an attempt that ran out of space may have left something
            file.write([head])
            set_room_aside(files, self._directory, file, self._room)
            file.sync()
            files.sync_directory(self._directory)
        except OSError as error:
            with suppress(OSError):
                file.truncate(0)
            file.close()
            raise storage_error(path, error) from error
        self._removed.discard(sequence)
        return LocalOpenSegment(path, file, listener)

    async def resume(self, sequence: int, kept: bytes, listener: GroupListener) -> LocalOpenSegment:
        """See SegmentMedium; replaces the file by a synced copy, which needs free space.

        The copy is made of the bytes that were read and checked: pages that are clean and not on the disk may be
        evicted any time.
        """
        path = segment_path(self._directory, sequence)
        try:
            write_again(self._files, path, kept)
            file = self._files.open(path)
            if self._room:
                set_room_aside(self._files, self._directory, file, self._room)
        except OSError as error:
            raise storage_error(path, error) from error
        return LocalOpenSegment(path, file, listener)

    async def confirm_seal(self, sequence: int, offset: int, last: bytes) -> None:
        """See SegmentMedium; a crash in between leaves an unsealed segment, which says the same."""
        path = segment_path(self._directory, sequence)
        try:
            file = self._files.open(path)
            try:
                file.truncate(offset)
                file.write([last])
                file.sync()
            finally:
                file.close()
        except OSError as error:
            raise storage_error(path, error) from error

    async def remove(self, sequence: int) -> None:
        """See SegmentMedium; whoever is reading it goes on reading the open file."""
        path = segment_path(self._directory, sequence)
        with self._lock:
            self._removed.add(sequence)
            self._paths.pop(sequence, None)
            try:
                self._files.remove(path)
            except OSError as error:
                message = f"{path}: cannot remove: {error}"
                raise StorageError(message) from error

    async def note(self, name: str) -> bytes | None:
        """See SegmentMedium."""
        if name not in self._names():
            return None
        path = self._directory / name
        try:
            file = self._files.open(path)
            try:
                return file.read_at(0, file.size())
            finally:
                file.close()
        except OSError as error:
            message = f"{path}: cannot read: {error}"
            raise StorageError(message) from error

    async def put_note(self, name: str, content: bytes) -> None:
        """See SegmentMedium."""
        path = self._directory / name
        try:
            write_again(self._files, path, content)
        except OSError as error:
            raise storage_error(path, error) from error

    async def remove_note(self, name: str) -> None:
        """See SegmentMedium."""
        if name not in self._names():
            return
        path = self._directory / name
        try:
            self._files.remove(path)
            self._files.sync_directory(self._directory)
        except OSError as error:
            raise storage_error(path, error) from error

    @property
    def watches_shortage(self) -> bool:
        """See SegmentMedium."""
        return self._space.is_watched

    def shortage(self, *, is_short: bool) -> StorageShortageError | None:
        """See SegmentMedium."""
        if not self._space.is_watched:
            return None
        found = self._space.remaining_shortage() if is_short else self._space.shortage()
        return None if found is None else DiskFullError(found)

    def take_reserve(self) -> None:
        """See SegmentMedium."""
        self._space.take_reserve()

    def give_reserve(self) -> bool:
        """See SegmentMedium."""
        return self._space.give_reserve()

    def _names(self) -> list[str]:
        try:
            return self._files.list(self._directory)
        except OSError as error:
            message = f"{self._directory}: cannot read the log: {error}"
            raise StorageError(message) from error
