"""Temporary directories that are removed soon after the end of their process, however it ends.

Each has a lock that its process holds. Creating one first removes those beside it whose processes have ended.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import StorageError
from magnetar.base.lock import DirectoryLock

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "magnetar-work-"
"""Prefix of the directory names; other files beside them are not touched."""


_SOCKET_NAME_BYTES = 103
"""Maximum length of a Unix socket's path on every system that Spark supports."""


def socket_directory(work_dir: Path) -> Path:
    """Return the directory for Spark's sockets: with its other files, unless the paths would be too long."""
    longest = work_dir / f".{uuid.UUID(int=0)}.sock"
    return work_dir if len(os.fsencode(longest)) <= _SOCKET_NAME_BYTES else Path(tempfile.gettempdir())


def spark_path(path: Path) -> str:
    """Return a path of a file system that machines mount, for Spark, whose default may be another one, such as HDFS.

    Spark does not decode escapes, so this is no valid URL for other programs.
    """
    return f"file://{path.absolute()}"


def default_parent() -> Path:
    """Create and return the default parent directory, which belongs to this user alone."""
    path = Path(tempfile.gettempdir()) / f"magnetar-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        message = f"{path} belongs to another user\nhint: remove it, or set TMPDIR"
        raise StorageError(message)
    return path


class WorkDirectory:
    """A directory that exists until ``close``, or until the next one is created after the end of the process."""

    def __init__(self, parent: Path | None = None) -> None:
        """Create a directory in ``parent`` (default: `default_parent`); raises OSError or StorageError."""
        parent = default_parent() if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        # One process at a time, because a directory without a lock counts as abandoned.
        with _alone(parent):
            remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            self._lock = DirectoryLock(self.path)

    def __enter__(self) -> Self:
        """Return the directory."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the directory."""
        self.close()

    def close(self) -> None:
        """Remove the directory and its contents."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def remove_abandoned(parent: Path) -> None:
    """Remove the directories in ``parent`` whose processes have ended; the caller holds the lock of ``parent``."""
    for path in sorted(parent.glob(f"{PREFIX}*")):
        if not path.is_dir() or path.is_symlink():
            continue
        try:
            lock = DirectoryLock(path)
        except StorageError:  # its process still runs, or it belongs to another user
            continue
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


@contextmanager
def _alone(parent: Path) -> Iterator[None]:
    descriptor = os.open(parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
