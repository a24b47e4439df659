"""Temporary directories that do not outlive their process for long, however it ends.

Each has a lock that its process holds. Whoever makes one first removes those beside it whose processes are gone.
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
"""Names of the directories begin with this; nothing else beside them is touched."""


_SOCKET_NAME_BYTES = 103
"""Bytes that the name of a Unix socket may have on every system that Spark runs on."""


def socket_directory(work_dir: Path) -> Path:
    """Return where Spark's sockets go: with its other files, unless the names would be too long for the system."""
    longest = work_dir / f".{uuid.UUID(int=0)}.sock"
    return work_dir if len(os.fsencode(longest)) <= _SOCKET_NAME_BYTES else Path(tempfile.gettempdir())


def default_parent() -> Path:
    """Make and return the directory where they go unless they are told where: it belongs to this user alone."""
    path = Path(tempfile.gettempdir()) / f"magnetar-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        message = f"{path} belongs to somebody else\nhint: remove it, or set TMPDIR"
        raise StorageError(message)
    return path


class WorkDirectory:
    """A directory from construction until ``close``, or until the next one is made after the process ended."""

    def __init__(self, parent: Path | None = None) -> None:
        """Make a directory in ``parent`` (default: `default_parent`); raises OSError or StorageError."""
        parent = default_parent() if parent is None else parent
        parent.mkdir(parents=True, exist_ok=True)
        # One process at a time: a directory that has no lock yet is otherwise taken for one without a process.
        with _alone(parent):
            remove_abandoned(parent)
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            self._lock = DirectoryLock(self.path)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Remove the directory with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def remove_abandoned(parent: Path) -> None:
    """Remove the directories in ``parent`` whose processes are gone; the caller keeps others from making any."""
    for path in sorted(parent.glob(f"{PREFIX}*")):
        if not path.is_dir() or path.is_symlink():
            continue
        try:
            lock = DirectoryLock(path)
        except StorageError:  # its process lives, or it is not ours
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
