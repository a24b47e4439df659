"""Interfaces to the outside world, so that time, files and randomness are inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Clock(Protocol):
    """The source of the time."""

    def now(self) -> float:
        """Seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start; never goes back."""
        ...

    def boot(self) -> str:
        """Identify the time in which ``monotonic`` has one start, also for other processes; empty if not known."""
        ...


class File(Protocol):
    """One open file of the log."""

    def write(self, parts: Sequence[bytes]) -> None:
        """Append all of ``parts``, in order; raises OSError, after which an unknown part of them is written."""
        ...

    def set_aside(self, size: int) -> None:
        """Reserve disk space for a length of ``size`` bytes; ``truncate`` releases it. Raises OSError.

        The length of the file does not change. Writes in reserved space are faster. No effect where it is not
        supported.
        """
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        ...

    def size(self) -> int:
        """Return the length in bytes."""
        ...

    def sync(self) -> None:
        """Return when all written bytes are on the disk; raises OSError if this is uncertain."""
        ...

    def truncate(self, length: int) -> None:
        """Cut the file to ``length`` bytes; the next write starts there."""
        ...

    def close(self) -> None:
        """Close the file; unsynced bytes may be lost."""
        ...


class Files(Protocol):
    """The directory operations that durable storage needs."""

    def open(self, path: Path) -> File:
        """Open for reading and appending; creates a missing file."""
        ...

    def list(self, directory: Path) -> list[str]:
        """Return the names in ``directory``, sorted."""
        ...

    def make_directory(self, directory: Path) -> None:
        """Create ``directory`` and missing parents."""
        ...

    def remove(self, path: Path) -> None:
        """Delete a file."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file within its directory atomically; replaces an existing file of that name."""
        ...

    def allocate(self, path: Path, size: int) -> None:
        """Create a file of ``size`` bytes with allocated disk space, durably; raises OSError if there is no space."""
        ...

    def free_bytes(self, directory: Path) -> int:
        """Return the bytes that can still be written in ``directory``."""
        ...

    def sync_directory(self, directory: Path) -> None:
        """Return when creations and deletions in ``directory`` are durable."""
        ...
