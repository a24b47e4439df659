"""The report of a plan. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.migration.planning.clients import understands_migration
from magnetar.migration.planning.findings import Findings, Severity

if TYPE_CHECKING:
    from collections import Counter

_ANSWERS = {True: "yes", False: "no", None: None}


@dataclass(slots=True, kw_only=True)
class Report:
    """What a migration would move, and the findings."""

    source: str
    target: str
    scope: str
    connections: Counter[str]
    """Producers and consumers in the source, by the version of the client."""
    namespaces: int = 0
    topics: int = 0
    """Topics without partitions, and partitions."""
    subscriptions: int = 0
    storage_bytes: int = 0
    changes: int = 0
    """Changes of metadata that the target needs."""
    findings: Findings = field(default_factory=Findings)

    @property
    def is_possible(self) -> bool:
        """Whether there is no blocker."""
        return not self.findings.count(Severity.BLOCKER)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "source": self.source,
            "target": self.target,
            "scope": self.scope,
            "verdict": "possible" if self.is_possible else "blocked",
            "namespaces": self.namespaces,
            "topics": self.topics,
            "subscriptions": self.subscriptions,
            "storageBytes": self.storage_bytes,
            "metadataChanges": self.changes,
            "clients": [
                {
                    "version": version,
                    "connections": count,
                    "topicMigrated": _ANSWERS[understands_migration(version)],
                }
                for version, count in sorted(self.connections.items())
            ],
            "counts": {each.value: self.findings.count(each) for each in Severity},
            "findings": [group.to_json() for group in self.findings.groups()],
        }
