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
    marks = {str(each): _mark(client, each, subscription) for each in _parts(topic, partitions)}
    return {
        "backlog": found["msgBacklog"],
        "consumers": len(found["consumers"]),
        "markDeletePosition": marks if partitions else marks[str(topic)],
    }


def skips_messages(client: AdminClient, topic: TopicName, subscription: str, goal: Position | int) -> bool:
    """Return whether a reset to ``goal``, a position or a time in milliseconds, may pass unacknowledged entries."""
    if goal == EARLIEST:
        return False
    for part in _parts(topic, client.topics.partitions(topic)):
        mark = _mark(client, part, subscription)
        if mark is None:
            continue
        position = Position.parse(mark)
        if goal == LATEST:
            return True
        # The answer for a time after all entries is the last one, which the reset passes.
        found = goal if isinstance(goal, Position) else _at(client, part, goal)
        is_last = not isinstance(goal, Position) and _at_last(client, part, found)
        if found > (position.ledger_id, position.entry_id + (0 if is_last else 1)):
            return True
    return False


def _parts(topic: TopicName, partitions: int) -> list[TopicName]:
    return [topic.partition(index) for index in range(partitions)] or [topic]


def _mark(client: AdminClient, topic: TopicName, subscription: str) -> str | None:
    cursor = client.topics.internal_stats(topic)["cursors"].get(subscription)
    return None if cursor is None else str(cursor["markDeletePosition"])


def _at(client: AdminClient, topic: TopicName, timestamp_ms: int) -> Position:
    found = client.topics.message_id_by_time(topic, timestamp_ms)
    return Position(found["ledgerId"], found["entryId"])


def _at_last(client: AdminClient, topic: TopicName, position: Position) -> bool:
    return str(client.topics.internal_stats(topic)["lastConfirmedEntry"]) == str(position)
