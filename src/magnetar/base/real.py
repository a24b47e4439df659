"""The real clock and file system."""

from __future__ import annotations

import ctypes
import os
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_PARTS_MAX = 1024
"""Maximum number of parts for one call of ``writev`` (IOV_MAX)."""


_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
if _fallocate is not None:
    _fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE, which ``os.posix_fallocate`` does not support."""


class SystemClock:
    """The machine's clocks (see Clock)."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def boot(self) -> str:
        """See Clock."""
        return _boot_id()


@cache
def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class SystemFile:
    """A file of the operating system, appended to through one descriptor."""

    def __init__(self, path: Path) -> None:
        """Open ``path`` for reading and appending."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, parts: Sequence[bytes]) -> None:
        """Append all of ``parts``."""
        for start in range(0, len(parts), _PARTS_MAX):
            some = parts[start : start + _PARTS_MAX]
            written = os.writev(self._descriptor, some)
            if written < sum(map(len, some)):
                rest = memoryview(b"".join(some))[written:]
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]

    def set_aside(self, size: int) -> None:
        """``fallocate`` without a change of length; Linux only."""
        if _fallocate is not None and _fallocate(self._descriptor, _KEEP_SIZE, 0, size) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``."""
        return os.pread(self._descriptor, length, offset)

    def size(self) -> int:
        """Length in bytes."""
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        """``fdatasync``."""
        os.fdatasync(self._descriptor)

    def truncate(self, length: int) -> None:
        """Cut to ``length`` bytes."""
        os.ftruncate(self._descriptor, length)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class SystemFiles:
    """The operating system's file system."""

    def open(self, path: Path) -> SystemFile:
        """Open for reading and appending."""
        return SystemFile(path)

    def list(self, directory: Path) -> list[str]:
        """Names in ``directory``, sorted."""
        return sorted(path.name for path in directory.iterdir())

    def make_directory(self, directory: Path) -> None:
        """Create ``directory`` and its parents."""
        directory.mkdir(parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        """Delete a file."""
        path.unlink()

    def rename(self, source: Path, target: Path) -> None:
        """``rename``."""
        source.replace(target)

    def allocate(self, path: Path, size: int) -> None:
        """``posix_fallocate``."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, directory: Path) -> int:
        """Free bytes for users other than root, from ``statvfs``."""
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def sync_directory(self, directory: Path) -> None:
        """Make creations and removals durable."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
