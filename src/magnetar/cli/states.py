"""States of topics and subscriptions before and after a change."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import AdminError
from magnetar.base.position import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.admin.client import AdminClient
    from magnetar.base.names import TopicName


def topic_state(client: AdminClient, topic: TopicName, *, partitioned: bool) -> dict[str, Any] | None:
    """Return the data and the clients of a topic; for one that cannot be loaded, the reason; None if there is none."""
    try:
        topics = client.topics
        found = topics.partitioned_stats(topic, per_partition=False) if partitioned else topics.stats(topic)
        partitions = {"partitions": topics.partitions(topic)} if partitioned else {}
    except AdminError as error:
        return None if error.status is HTTPStatus.NOT_FOUND else {"unknown": str(error)}
    return partitions | {
        "storageSize": found["storageSize"],
        "producers": len(found["publishers"]),
        "consumers": sum(len(each["consumers"]) for each in found["subscriptions"].values()),
        "backlogs": {name: each["msgBacklog"] for name, each in found["subscriptions"].items()},
    }


def topic_effects(state: dict[str, Any]) -> Iterator[str]:
    """Yield what the deletion of a topic with ``state`` loses."""
    if "unknown" in state:
        yield f"its contents are unknown: {state['unknown']}"
        return
    yield f"{state['storageSize']:,} bytes are deleted"
    for name, backlog in state["backlogs"].items():
        yield f"subscription {name} has {backlog:,} unacknowledged entries"
    if state["producers"] or state["consumers"]:
        yield f"{state['producers']} producers and {state['consumers']} consumers are connected"


def subscription_state(client: AdminClient, topic: TopicName, subscription: str) -> dict[str, Any] | None:
    """Return the backlog of a subscription, and its mark-delete position in each partition; None if there is none."""
    partitions = client.topics.partitions(topic)
    if partitions:
        stats = client.topics.partitioned_stats(topic, per_partition=False)
    else:
        stats = client.topics.stats(topic, precise_backlog=True)
    found = stats["subscriptions"].get(subscription)
    if found is None:
        return None
    marks = {str(each): _mark(client, each, subscription) for each in topic.parts(partitions)}
    return {
        "backlog": found["msgBacklog"],
        "consumers": len(found["consumers"]),
        "markDeletePosition": marks if partitions else marks[str(topic)],
    }


def skips_messages(
    client: AdminClient, topic: TopicName, subscription: str, goal: Position | int, *, is_excluded: bool = False
) -> bool:
    """Return whether a reset to ``goal`` may pass unacknowledged entries.

    ``goal`` is a position, which ``is_excluded`` lets the reset pass, or a time in milliseconds.
    """
    if goal == EARLIEST:
        return False
    for part in topic.parts(client.topics.partitions(topic)):
        stats = client.topics.internal_stats(part)
        cursor = stats["cursors"].get(subscription)
        if cursor is None:
            continue
        if goal == LATEST:
            return True
        found, is_passed = goal, is_excluded
        if not isinstance(found, Position):
            found = _at(client, part, found)
            # The answer for a time after all entries is the last one, which the reset passes.
            is_passed = str(found) == stats["lastConfirmedEntry"]
        end = found._replace(entry_id=found.entry_id + is_passed)
        if _has_entries(stats, Position.parse(cursor["markDeletePosition"]), end):
            return True
    return False


def _has_entries(stats: dict[str, Any], mark: Position, end: Position) -> bool:
    """Return whether the topic with these internal stats has entries after ``mark`` and before ``end``."""
    counts = {each["ledgerId"]: each["entries"] for each in stats["ledgers"]}
    if counts:  # Apache Pulsar lists the open ledger, which is the last one, without its entries
        newest = max(counts)
        counts[newest] = max(counts[newest], stats["currentLedgerEntries"])
    for ledger_id, count in counts.items():
        first = mark.entry_id + 1 if ledger_id == mark.ledger_id else 0
        stop = min(count, end.entry_id) if ledger_id == end.ledger_id else count
        if mark.ledger_id <= ledger_id <= end.ledger_id and first < stop:
            return True
    return False


def _mark(client: AdminClient, topic: TopicName, subscription: str) -> str | None:
    cursor = client.topics.internal_stats(topic)["cursors"].get(subscription)
    return None if cursor is None else str(cursor["markDeletePosition"])


def _at(client: AdminClient, topic: TopicName, timestamp_ms: int) -> Position:
    found = client.topics.message_id_by_time(topic, timestamp_ms)
    return Position(found["ledgerId"], found["entryId"])
