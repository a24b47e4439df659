"""SQLite's write-ahead log after a failed fsync.

While a process runs, SQLite handles a failed fsync of its write-ahead log well: the transaction is rolled back, and the
next one overwrites its frames. A process that starts later reads the log through the page cache, finds the frames of
that transaction, and takes it for committed, though the disk does not have them. All transactions behind them would be
lost with the power, because SQLite reads the log up to the first damaged frame.

The main file needs no such care: a checkpoint whose fsync failed is repeated from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.durable import storage_error, write_again

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.world import Files

_WAL_SUFFIX = "-wal"


def write_wal_again(path: Path, files: Files) -> None:
    """Bring the write-ahead log of the database at ``path`` to the disk, before anything is read from the database.

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
