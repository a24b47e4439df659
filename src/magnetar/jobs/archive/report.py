"""The report of a job. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from magnetar.jobs.archive.advance import Advance


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """What one run has added to an archive."""

    directory: Path
    messages: int
    batches: int
    entries: Mapping[str, int]
    """By topic or partition."""
    ends: Mapping[str, str]
    """By topic or partition, the position of the next entry to archive."""

    @classmethod
    def of(cls, directory: Path, advance: Advance) -> Self:
        """Return the report of a run."""
        ends = {topic: str(advance.ends[topic]) for topic in sorted(advance.entries)}
        return cls(directory, advance.messages, advance.batches, dict(sorted(advance.entries.items())), ends)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "directory": str(self.directory),
            "messages": self.messages,
            "batches": self.batches,
            "topics": [
                {"topic": topic, "entries": entries, "next": self.ends[topic]}
                for topic, entries in self.entries.items()
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A topic or partition of the archive that was restored."""

    topic: str
    target: str
    messages: int
    """Number of selected messages, all of which are published now."""
    before: int
    """Number of those that were published before this run."""


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What one run has published."""

    directory: Path
    messages: int
    topics: Sequence[Restored]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "directory": str(self.directory),
            "messages": self.messages,
            "topics": [
                {
                    "topic": each.topic,
                    "target": each.target,
                    "messages": each.messages,
                    "restoredBefore": each.before,
                }
                for each in self.topics
            ],
        }
