"""What the TopicStats of Apache Pulsar tell about a topic. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from magnetar.migration.planning.facts import is_internal
from magnetar.wire.links import REPLICATOR_PREFIX, link_subscription

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Json = Mapping[str, Any]

ACKNOWLEDGING_ONE_BY_ONE: Final = ("Shared", "Key_Shared")
"""Types of subscriptions for which Apache Pulsar counts the messages that consumers hold."""


def durable_in(stats: Json) -> dict[str, Json]:
    """Return the durable subscriptions of clients, from the TopicStats of a topic in Apache Pulsar."""
    found = stats["subscriptions"].items()
    return {name: each for name, each in sorted(found) if each.get("isDurable", True) and not is_internal(name)}


def link_backlog(stats: Json, target: str) -> str:
    """Return what the link to ``target`` has not carried, from the TopicStats of a topic; empty: nothing."""
    link = stats["subscriptions"].get(link_subscription(target, is_foreign=True))
    if link is None:
        return f"it has no link to {target}"
    backlog = link["msgBacklog"]
    return f"{backlog:,} entries are not confirmed by {target}" if backlog else ""


def held_in(subscription: Json) -> int | None:
    """Return the messages that consumers hold without an acknowledgement; None: the source does not count them."""
    if not subscription.get("consumers"):
        return 0
    return subscription["unackedMessages"] if subscription.get("type") in ACKNOWLEDGING_ONE_BY_ONE else None


def clients_in(stats: Json) -> Iterator[str]:
    """Yield the addresses of connected clients, without links and the tools of Magnetar."""
    found = [each for each in stats.get("publishers") or () if not each["producerName"].startswith(REPLICATOR_PREFIX)]
    for name, subscription in stats["subscriptions"].items():
        if not is_internal(name):
            found += subscription.get("consumers") or ()
    for client in found:
        if not client.get("clientVersion", "").startswith("Magnetar"):
            yield client.get("address", "unknown address").lstrip("/")
