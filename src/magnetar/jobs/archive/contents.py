"""The files of an archive. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Definitions = Mapping[str, Mapping[bytes, bytes]]


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
    schemas: Definitions
    """The schemas of messages, by topic and version; empty for one that was unknown."""


def partition_of(path: Path) -> tuple[str, str]:
    """Return the topic and the day of a file ``topic=…/day=…/file``."""
    topic, day = (unquote(directory.name.partition("=")[2]) for directory in (path.parent.parent, path.parent))
    return topic, day
