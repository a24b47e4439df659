"""Findings about connected clients. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from magnetar.migration.planning.findings import Area, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from magnetar.migration.planning.facts import ClusterFacts

_VERSION: Final = re.compile(r"Pulsar[- ](Java|CPP|Go)[- ]v?(\d+)\.(\d+)")
"""The version that a client states. The Python and Node.js clients are the C++ client."""

_SINCE: Final = {"Java": (3, 0), "CPP": (3, 6), "Go": (0, 13)}
"""First releases with TOPIC_MIGRATED (PIP-188)."""

_BEFORE: Final = {"Java": (2, 11), "CPP": (3, 5), "Go": (0, 12)}
"""First releases for which it is not certain."""


def understands_migration(version: str) -> bool | None:
    """Return whether a client understands TOPIC_MIGRATED, by the version that it states; None: unknown."""
    found = _VERSION.match(version)
    if found is None:
        return None
    kind, release = found[1], (int(found[2]), int(found[3]))
    if release >= _SINCE[kind]:
        return True
    return False if release < _BEFORE[kind] else None


def client_findings(connections: Mapping[str, int], source: ClusterFacts) -> Iterator[Finding]:
    """Yield the clients that TOPIC_MIGRATED does not move, or not certainly; ``connections`` by version.

    A broker of Magnetar disconnects them, and they look the topic up again. Apache Pulsar knows no routes.
    """
    problems = {
        False: "clients do not understand TOPIC_MIGRATED",
        None: "it is unknown whether clients understand TOPIC_MIGRATED",
    }
    severity, fix = Severity.WARNING, "let these clients reconnect with the address of the target"
    if source.is_magnetar:
        severity, fix = Severity.NOTE, "none is needed if they reach the target: they look topics up again (routes)"
    for version, count in sorted(connections.items()):
        known = understands_migration(version)
        if not known:
            yield Finding(severity, Area.CLIENTS, version, problems[known], fix, f"{count:,} producers and consumers")
