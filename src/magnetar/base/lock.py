"""A lock that admits one process to a data directory."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "lock"


class DirectoryLock:
    """Held from construction until ``release`` or the end of the process.

    The kernel holds the lock, on the file ``lock``. The existence of the file has no meaning. It is never removed,
    because two processes could otherwise each lock a file of that name.
    """

    def __init__(self, directory: Path) -> None:
        """Lock ``directory``, which must exist; raises StorageError with the process that holds the lock."""
        path = directory / _NAME
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            message = f"cannot lock {directory}: {error}"
            raise StorageError(message) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, 20, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            message = (
                f"{directory} is in use by process {holder or 'unknown'}\nhint: stop it, or name another directory"
            )
            raise StorageError(message) from error
        with suppress(OSError):  # the process id is only informative; a full disk must not prevent a start
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def __enter__(self) -> Self:
        """Hold the lock for a block."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Release the lock."""
        self.release()

    def release(self) -> None:
        """Release the lock; other processes may take it."""
        os.close(self._descriptor)
