"""SQLite's write-ahead log after a failed fsync.

While a process runs, SQLite handles a failed fsync of its write-ahead log correctly: it rolls back the transaction, and
the next one overwrites its frames. A later process reads the log through the page cache. It finds the frames of the
failed transaction and regards it as committed, although the disk does not have them. After a power loss, all later
transactions would be lost, because SQLite reads the log up to the first damaged frame.

The main file needs no such care: a checkpoint with a failed fsync is repeated from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.durable import storage_error, write_again

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

_WAL_SUFFIX = "-wal"


def write_wal_again(path: Path, files: Files) -> None:
    """Make the write-ahead log of the database at ``path`` durable, before the database is read.

    No process may have the database open. Needs free space for a copy. Raises StorageError, DiskFullError.
    """
    wal = path.with_name(path.name + _WAL_SUFFIX)
    try:
        if wal.name not in files.list(path.parent):
            return
        file = files.open(wal)
        try:
            content = file.read_at(0, file.size())
        finally:
            file.close()
        write_again(files, wal, content)
    except OSError as error:
        raise storage_error(wal, error) from error
