"""Names of producers and subscriptions that only Magnetar's own parts may use."""

from __future__ import annotations

from typing import Final

from magnetar.wire.links import (
    BOOKMARK_PREFIX,
    DEDUPLICATION_CURSOR,
    FOREIGN_LINK_PREFIX,
    PROGRESS_PREFIX,
    REPLICATOR_PREFIX,
)

_NAMING_A_CLUSTER: Final = (REPLICATOR_PREFIX, PROGRESS_PREFIX, FOREIGN_LINK_PREFIX, BOOKMARK_PREFIX)

_OTHERS: Final = ("magnetar.", DEDUPLICATION_CURSOR)


def cluster_of(name: str) -> str | None:
    """Return the cluster for which a producer or subscription with an internal name acts; None for other names.

    It is empty if the name names no cluster.
    """
    for prefix in _NAMING_A_CLUSTER:
        if name.startswith(prefix):
            return name.removeprefix(prefix).partition("-->")[0]
    return "" if name.startswith(_OTHERS) else None
