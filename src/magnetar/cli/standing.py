"""Rows about subscriptions, from the statistics of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def standings(stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one row for each subscription in ``stats``, the TopicStats of a topic."""
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
    """Return the use of the limit of persisted acknowledgements, and its consequences; empty if not known."""
    if "ackStateUsed" not in each:
        return ""  # not in the statistics of Apache Pulsar
    words = [f"{each['ackStateUsed']:.0%} of the limit"]
    if each["isBlockedOnAckStatePersistent"]:
        words.append("dispatch is paused")
    if each["unpersistedAcks"]:
        words.append(f"a crash would redeliver {each['unpersistedAcks']} entries")
    return ", ".join(words)


def unconfirmed(each: dict[str, Any]) -> str:
    """Return the unconfirmed entries of a replicated subscription and their age, for each cluster."""
    entries = each.get("progressUnconfirmed") or {}
    return ", ".join(
        f"{cluster}: {'unknown' if age is None else f'{entries.get(cluster)} for {age:.1f} s'}"
        for cluster, age in (each.get("progressAgeSeconds") or {}).items()
        if age != 0
    )


def protections(found: dict[str, dict[str, Any]], *, details: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each subscription, by topic and name; with ``details``, all its fields."""
    for topic, subscriptions in found.items():
        for name, each in subscriptions.items():
            if details:
                yield {"topic": topic, "subscription": name, **each}
            else:
                since = f"{'at least ' if each['sinceAtLeast'] else ''}{each['since']}"
                row = {"topic": topic, "subscription": name, "protection": each["status"], "since": since}
                yield {**row, "why": "; ".join(each["reasons"])}


def unprotected(found: dict[str, dict[str, Any]]) -> int:
    """Return the number of subscriptions that are not protected, of all topics."""
    return sum(each["status"] != "protected" for subscriptions in found.values() for each in subscriptions.values())


def holes(stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the oldest unacknowledged entries before acknowledged ones, with the consumers that hold them."""
    for name, each in stats["subscriptions"].items():
        for hole in each.get("oldestHoles") or ():
            consumers = ", ".join(hole["consumers"]) or "no consumer"
            yield {"subscription": name, "entries": hole["entries"], "held by": consumers}


def unavailable(stats: dict[str, Any]) -> dict[str, str]:
    """Return why clusters cannot have exact progress, and the method used instead, by cluster."""
    return {
        cluster: reason
        for each in stats["subscriptions"].values()
        for cluster, reason in (each.get("progressUnavailable") or {}).items()
    }
