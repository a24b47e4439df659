"""The files of an archive. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class ArchivedFile(NamedTuple):
    """A file with messages of one topic and day."""

    topic: str
    day: str
    """As ``2026-11-27``."""
    path: Path


class Contents(NamedTuple):
    """The committed messages of an archive."""

    archive_id: str
    files: list[ArchivedFile]
