"""The journal of a migration: its records, durable before they have effects.

A line of the file ``journal`` is a record: eight hexadecimal digits of a CRC-32C, a space, and JSON. The checksum
also covers that of the line before, so lines can be neither exchanged nor left out. Each record is synced on its own,
so only the last line can be incomplete after a crash. It is cut off: nothing was done because of it. Any other damage
is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import google_crc32c

from magnetar.base.durable import storage_error, write_again
from magnetar.base.errors import CorruptionError, MigrationStateError, StorageError
from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import from_json, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Clock, Files
    from magnetar.migration.machine.records import Record

NAME = "journal"
_DIGITS = 8
_FIRST = b"magnetar migration 1"
"""Covered by the first checksum: the version of the format."""


class Journal:
    """The journal in a directory, and the state of its records. Only one process may have it."""

    def __init__(self, files: Files, directory: Path, clock: Clock) -> None:
        """Read the journal, or begin one; raises CorruptionError, or StorageError.

        The content is written again, because what was read might never reach the disk (ADR 12).
        """
        self._clock = clock
        self._path = directory / NAME
        self._failure: str | None = None
        try:
            files.make_directory(directory)
            content = _content(files, directory)
            replay = _Replay(self._path, content)
            write_again(files, self._path, content[: replay.length])
            self._file = files.open(self._path)
        except OSError as error:
            raise storage_error(self._path, error) from error
        self._crc = replay.crc
        self.migration = replay.migration
        self.changed_at = replay.changed_at
        """Time of the newest record, in seconds since the epoch; None: there is none."""

    def append(self, record: Record) -> None:
        """Apply a record, and return when it is durable; raises MigrationStateError if it is illegal, or StorageError.

        After a StorageError, nothing more is accepted, because it is unknown whether the record is on the disk. Then
        ``migration`` must not be used any more.
        """
        if self._failure is not None:
            raise StorageError(self._failure)
        self.migration.apply(record)
        at = self._clock.now()
        text = json.dumps({"at": at, **to_json(record)}, separators=(",", ":")).encode()
        crc = google_crc32c.extend(self._crc, text)
        try:
            self._file.write([b"%08x %s\n" % (crc, text)])
            self._file.sync()
        except OSError as error:
            self._failure = f"{self._path}: a record may be lost\nhint: run the command again"
            raise storage_error(self._path, error) from error
        self._crc, self.changed_at = crc, at

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_journal(files: Files, directory: Path) -> tuple[Migration, float | None]:
    """Return the state of a journal, which another process may extend, and the time of its newest record.

    Nothing is written. Raises CorruptionError, or StorageError.
    """
    path = directory / NAME
    try:
        replay = _Replay(path, _content(files, directory))
    except OSError as error:
        message = f"{path}: cannot read: {error}"
        raise StorageError(message) from error
    return replay.migration, replay.changed_at


class _Replay:
    """The state of the complete records in the content of a journal; raises CorruptionError."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.migration = Migration()
        self.changed_at: float | None = None
        self.crc = google_crc32c.value(_FIRST)
        self.length = 0
        """Number of bytes of the complete records."""
        *lines, rest = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            found = self._parsed(line)
            if found is None:
                if number == len(lines) and not rest:
                    return  # the last record is incomplete, although its end was written
                message = f"{path}: line {number} is damaged"
                raise CorruptionError(message)
            self.changed_at = found.pop("at")
            try:
                self.migration.apply(from_json(found))
            except (ValueError, MigrationStateError) as error:
                message = f"{path}: line {number}: {error}\nhint: use the version of magnetar that wrote it"
                raise CorruptionError(message) from None
            self.length += len(line) + 1

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        """Return the record of a line; None if it is damaged."""
        digits, text = line[:_DIGITS], line[_DIGITS + 1 :]
        crc = google_crc32c.extend(self.crc, text)
        if digits != b"%08x" % crc or line[_DIGITS : _DIGITS + 1] != b" ":
            return None
        self.crc = crc
        found: dict[str, Any] = json.loads(text)
        return found


def _content(files: Files, directory: Path) -> bytes:
    """Return the content of the journal; empty if there is none."""
    try:
        names = files.list(directory)
    except FileNotFoundError:
        return b""
    if NAME not in names:
        return b""
    file = files.open(directory / NAME)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()
