"""The report of an audit. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.jobs.audit.tables import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FINDINGS_SHOWN_MAX = 1_000
"""Findings of a report; a table in Parquet has all."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """The entries of a topic in one cluster."""

    topic: str
    cluster: str
    compared: int = 0
    in_flight: int = 0
    not_comparable: int = 0
    findings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """A subscription whose acknowledgements were not compared, and the reason."""

    topic: str
    subscription: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Report:
    """The result of an audit."""

    clusters: Sequence[str]
    counts: Sequence[Counts]
    entries_read: int
    """Number of entries that this run has read, and earlier ones had not."""
    subscriptions_compared: int = 0
    subscriptions_not_compared: Sequence[NotCompared] = ()
    by_kind: Mapping[str, int] = field(default_factory=dict)
    """Number of findings by kind."""
    findings: Sequence[Mapping[str, Any]] = ()
    """The first findings."""

    @property
    def is_clean(self) -> bool:
        """Whether there is no finding."""
        return not self.by_kind

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "verdict": "equal" if self.is_clean else "different",
            "clusters": list(self.clusters),
            "entriesRead": self.entries_read,
            "topics": [
                {
                    "topic": each.topic,
                    "cluster": each.cluster,
                    "compared": each.compared,
                    "inFlight": each.in_flight,
                    "notComparable": each.not_comparable,
                    "findings": each.findings,
                }
                for each in self.counts
            ],
            "subscriptions": {
                "compared": self.subscriptions_compared,
                "notCompared": [
                    {"topic": each.topic, "subscription": each.subscription, "reason": each.reason}
                    for each in self.subscriptions_not_compared
                ],
            },
            "findingsByKind": dict(self.by_kind),
            "findings": [finding_json(row) for row in self.findings],
            "findingsOmitted": sum(self.by_kind.values()) - len(self.findings),
        }


def finding_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of FINDINGS as JSON; what does not apply is absent."""
    found = {
        "kind": row["kind"],
        "topic": row["topic"],
        "subscription": row["subscription"],
        "cluster": row["cluster"],
        "origin": row["origin"],
        "originPosition": position(row["origin_ledger"], row["origin_entry"]),
        "entries": row["count"],
        "position": position(row["ledger"], row["entry"]),
        "other": row["other"],
    }
    return {name: value for name, value in found.items() if value is not None}


def position(ledger: int | None, entry: int | None) -> str | None:
    """Return a position as text; None if there is none."""
    return None if ledger is None else f"{ledger}:{entry}"


def counts_of(
    topics: Sequence[str],
    clusters: Sequence[str],
    tallies: Iterable[Mapping[str, Any]],
    found: Iterable[Mapping[str, Any]],
) -> list[Counts]:
    """Return the counts by topic and cluster, from rows of kind, topic, cluster and count."""
    counts = {(topic, cluster): Counts(topic=topic, cluster=cluster) for topic in topics for cluster in clusters}
    for row in tallies:
        of = counts[row["topic"], row["cluster"]]
        match row["kind"]:
            case Tally.COMPARED:
                of.compared += row["count"]
            case Tally.IN_FLIGHT:
                of.in_flight += row["count"]
            case Tally.NOT_COMPARABLE:
                of.not_comparable += row["count"]
    for row in found:
        counts[row["topic"], row["cluster"]].findings += row["findings"]
    return list(counts.values())
