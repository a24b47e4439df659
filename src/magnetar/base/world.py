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


class File(Protocol):
    """One open file of the log."""

    def write(self, parts: Sequence[bytes]) -> None:
        """Append all of ``parts`` at the end, in order; raises OSError, and then how much was written is unknown."""
        ...

    def set_aside(self, size: int) -> None:
        """Have the disk keep room for a length of ``size`` bytes, which ``truncate`` gives back; raises OSError.

        The length stays. Writing there is cheaper, as no room has to be found; where that is not known it does nothing.
        """
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; fewer only at the end of the file."""
        ...

    def size(self) -> int:
        """Length in bytes."""
        ...

    def sync(self) -> None:
        """Return once all written bytes are on the disk; raises OSError if that cannot be promised."""
        ...

    def truncate(self, length: int) -> None:
        """Cut the file to ``length`` bytes; the next write goes there."""
        ...

    def close(self) -> None:
        """Release the file; what was not synced may be lost."""
        ...


class Files(Protocol):
    """The directory operations that durable storage needs."""

    def open(self, path: Path) -> File:
        """Open for reading and appending, creating the file if it is missing."""
        ...

    def list(self, directory: Path) -> list[str]:
        """Names in ``directory``, sorted."""
        ...

    def make_directory(self, directory: Path) -> None:
        """Create ``directory`` and its parents where missing."""
        ...

    def remove(self, path: Path) -> None:
        """Delete a file."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name in the same directory, in one step; a file that has that name is replaced."""
        ...

    def allocate(self, path: Path, size: int) -> None:
        """Make a file of ``size`` bytes whose room on the disk is taken, durably; raises OSError without it."""
        ...

    def free_bytes(self, directory: Path) -> int:
        """Bytes that can still be written where ``directory`` is."""
        ...

    def sync_directory(self, directory: Path) -> None:
        """Return once creations and removals in ``directory`` are on the disk."""
        ...
