"""The report of a translation. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.base.position import Position
from magnetar.jobs.translate.tables import Match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.jobs.translate.outcome import Translation

AMBIGUOUS_SHOWN_MAX = 1_000
"""Ambiguous entries of a report; the mapping has all."""


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of a translation."""

    source: str
    target: str
    entries_read: int
    """Number of entries that this run has read, and earlier ones had not."""
    counts: Mapping[str, Mapping[Match, int]] = field(default_factory=dict)
    """Number of entries by topic and match; an ambiguous one counts in the target."""
    ambiguous: Sequence[Mapping[str, Any]] = ()
    """The first ambiguous entries of the target, as rows of MATCHES."""
    translations: Sequence[Translation] = ()

    @property
    def is_refused(self) -> bool:
        """Whether a state was to be set in the target and was not."""
        return any(each.applied is False for each in self.translations)

    def count(self, match: Match) -> int:
        """Return a number of entries of all topics."""
        return sum(by_match.get(match, 0) for by_match in self.counts.values())

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "from": self.source,
            "to": self.target,
            "entriesRead": self.entries_read,
            "topics": [
                {"topic": topic, **{_key(match): by_match.get(match, 0) for match in Match}}
                for topic, by_match in sorted(self.counts.items())
            ],
            "ambiguous": [_ambiguous_json(row) for row in self.ambiguous],
            "ambiguousOmitted": self.count(Match.AMBIGUOUS) - len(self.ambiguous),
            "subscriptions": [each.to_json() for each in self.translations],
        }


def counts_of(topics: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[Match, int]]:
    """Return the counts by topic and match, from rows of topic, match and count."""
    counts: dict[str, dict[Match, int]] = {topic: {} for topic in topics}
    for row in rows:
        counts[row["topic"]][Match(row["match"])] = row["count"]
    return counts


def _key(match: Match) -> str:
    first, *rest = match.value.split()
    return first + "".join(map(str.capitalize, rest))


def _ambiguous_json(row: Mapping[str, Any]) -> dict[str, Any]:
    sources = zip(row["source_ledgers"], row["source_entries"], strict=True)
    return {
        "topic": row["topic"],
        "position": str(Position(row["ledger"], row["entry"])),
        "sourcePositions": [str(Position(*place)) for place in sources],
        "producerName": row["producer_name"],
        "sequenceId": row["sequence_id"],
        "publishTime": row["publish_time"],
        "messages": row["messages"],
    }
