"""Findings of a plan, grouped, so that thousands of topics with the same problem take little memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMED_MAX = 1_000
"""Resources that a group names. Further ones are counted."""


class Severity(Enum):
    """How much a finding matters."""

    BLOCKER = "blocker"
    """The migration would fail, or lose or repeat messages."""
    WARNING = "warning"
    """Something behaves differently in the target, or cannot be checked."""
    NOTE = "note"
    """Something that the migration does, or that an operator should know."""


class Area(Enum):
    """What a finding is about."""

    CLUSTERS = "clusters"
    NAMES = "names"
    PARTITIONS = "partitions"
    SCHEMAS = "schemas"
    POLICIES = "policies"
    PERMISSIONS = "permissions"
    QUOTAS = "quotas"
    DISK = "disk"
    CLIENTS = "clients"
    SUBSCRIPTIONS = "subscriptions"
    TOPICS = "topics"


_SEVERITIES, _AREAS = list(Severity), list(Area)


class Finding(NamedTuple):
    """One problem of one resource."""

    severity: Severity
    area: Area
    resource: str
    problem: str
    """The problem, without the resource."""
    fix: str
    """The next step of the operator."""
    detail: str = ""
    """What differs between resources with the same problem, such as sizes."""


@dataclass(slots=True)
class Group:
    """All findings with the same problem and the same fix."""

    severity: Severity
    area: Area
    problem: str
    fix: str
    count: int = 0
    resources: dict[str, str] = field(default_factory=dict)
    """The first resources, with their details."""

    def to_json(self) -> dict[str, Any]:
        """Return the group as JSON."""
        return {
            "severity": self.severity.value,
            "area": self.area.value,
            "problem": self.problem,
            "fix": self.fix,
            "count": self.count,
            "resources": [{"name": name, "detail": detail or None} for name, detail in self.resources.items()],
        }


class Findings:
    """All findings of a plan."""

    def __init__(self) -> None:
        """Begin without findings."""
        self._groups: dict[tuple[Severity, Area, str, str], Group] = {}

    def add(self, found: Iterable[Finding]) -> None:
        """Add findings."""
        for each in found:
            key = (each.severity, each.area, each.problem, each.fix)
            group = self._groups.setdefault(key, Group(*key))
            group.count += 1
            if len(group.resources) < NAMED_MAX:
                group.resources[each.resource] = each.detail

    def groups(self) -> list[Group]:
        """Return the groups, blockers first."""
        return sorted(
            self._groups.values(), key=lambda each: (_SEVERITIES.index(each.severity), _AREAS.index(each.area))
        )

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(each.count for each in self._groups.values() if each.severity is severity)
