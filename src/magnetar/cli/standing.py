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
            "acknowledgement state": ack_state(each),
            "not confirmed": unconfirmed(each),
            "without exact progress in": ", ".join(each.get("progressUnavailable") or ()),
        }


def ack_state(each: dict[str, Any]) -> str:
    """How much of the limit is used of what is persisted of a subscription's acknowledgements, and what follows."""
    if "ackStateUsed" not in each:
        return ""  # Apache Pulsar does not tell
    words = [f"{each['ackStateUsed']:.0%} of the limit"]
    if each["isBlockedOnAckStatePersistent"]:
        words.append("dispatch is paused")
    if each["unpersistedAcks"]:
        words.append(f"{each['unpersistedAcks']} entries would come again")
    return ", ".join(words)


def unconfirmed(each: dict[str, Any]) -> str:
    """What other clusters have not confirmed of a replicated subscription, by cluster: entries and age."""
    entries = each.get("progressUnconfirmed") or {}
    return ", ".join(
        f"{cluster}: {'unknown' if age is None else f'{entries.get(cluster)} for {age:.1f} s'}"
        for cluster, age in (each.get("progressAgeSeconds") or {}).items()
        if age != 0
    )


def protections(found: dict[str, dict[str, Any]], *, details: bool) -> Iterator[dict[str, Any]]:
    """One row for each subscription, by topic and name; with ``details``, all that is known of it."""
    for topic, subscriptions in found.items():
        for name, each in subscriptions.items():
            if details:
                yield {"topic": topic, "subscription": name, **each}
            else:
                since = f"{'at least ' if each['sinceAtLeast'] else ''}{each['since']}"
                row = {"topic": topic, "subscription": name, "protection": each["status"], "since": since}
                yield {**row, "why": "; ".join(each["reasons"])}


def holes(stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The oldest entries that are not acknowledged below acknowledged ones, and which consumers hold them."""
    for name, each in stats["subscriptions"].items():
        for hole in each.get("oldestHoles") or ():
            consumers = ", ".join(hole["consumers"]) or "nobody"
            yield {"subscription": name, "entries": hole["entries"], "held by": consumers}


def unavailable(stats: dict[str, Any]) -> dict[str, str]:
    """Why clusters cannot have exact progress, and what applies instead; each cluster once."""
    return {
        cluster: reason
        for each in stats["subscriptions"].values()
        for cluster, reason in (each.get("progressUnavailable") or {}).items()
    }
