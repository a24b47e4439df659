"""Where subscriptions stand, from a topic's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def standings(stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row for each subscription in ``stats``, a topic's TopicStats."""
    for name, each in stats["subscriptions"].items():
        yield {
            "subscription": name,
            "type": each["type"],
            "backlog": each["msgBacklog"],
            "unacknowledged": each["unackedMessages"],
            "msg/s out": each["msgRateOut"],
            "consumers": len(each["consumers"]),
            "replicated": each["isReplicated"],
            "without exact progress in": ", ".join(each.get("progressUnavailable") or ()),
        }


def unavailable(stats: dict[str, Any]) -> dict[str, str]:
    """Why clusters cannot have exact progress, and what applies instead; each cluster once."""
    return {
        cluster: reason
        for each in stats["subscriptions"].values()
        for cluster, reason in (each.get("progressUnavailable") or {}).items()
    }
