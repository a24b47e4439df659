"""Served routes whose answer is not always that of Apache Pulsar 4.0; ``make interop`` finds exactly these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPIC: Final = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_BROKER_STATS: Final = "/admin/v2/broker-stats"

DIFFERENCES: Final[Mapping[tuple[str, str], str]] = {
    ("GET", "/admin/v2/clusters/{cluster}/namespaceIsolationPolicies"): (
        "The list of a cluster that never had a policy is empty. Apache Pulsar answers with 404."
    ),
    ("GET", f"{_TOPIC}/internal-info"): "Cursors have no `creationDate` and `modificationDate`.",
    ("GET", f"{_TOPIC}/internalStats"): "Cursors have no `lastLedgerSwitchTimestamp`.",
    ("GET", f"{_TOPIC}/partitioned-internalStats"): "Cursors have no `lastLedgerSwitchTimestamp`.",
    ("GET", f"{_TOPIC}/subscriptionTypesEnabled"): (
        "The list of a topic that never had a policy is empty. Apache Pulsar answers with 204."
    ),
    ("GET", f"{_BROKER_STATS}/allocator-stats/{{allocator}}"): "There are no arenas, only the memory in use.",
    (
        "GET",
        f"{_BROKER_STATS}/load-report",
    ): "`lastStats` and the lists of bundles are empty, and there is no `loadManagerClassName`.",
    ("GET", f"{_BROKER_STATS}/mbeans"): "The list is empty, because there is no virtual machine of Java.",
    ("GET", f"{_BROKER_STATS}/topics"): "The statistics of a topic have the members of `stats`, as at `destinations`.",
}
"""The difference by method and path."""
