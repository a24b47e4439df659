"""Helper functions of the geo suite: waiting for equal logs, and moving a consumer between clusters."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pulsar

from tests.kit.messages import read_log
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.kit.clusters import Group

REPLICATION_TIMEOUT_S = 60.0
"""Time limit in seconds for replication, including an end of a lease."""

PROGRESS_TIMEOUT_S = 15.0
"""Time limit in seconds for the application of acknowledgements in other clusters."""


def entries(group: Group, name: str, topic: str) -> int:
    """Return the number of entries in the cluster's log of the topic; 0 without a log."""
    response = group.rest(name).request("GET", f"{topic.replace('://', '/')}/internalStats")
    return response.json()["numberOfEntries"] if response.is_success else 0


def wait_for_entries(group: Group, topic: str, count: int, names: Iterable[str]) -> None:
    """Wait until the log of each cluster has ``count`` entries."""
    for name in names:
        wait_until(
            partial(_has_entries, group, name, topic, count),
            REPLICATION_TIMEOUT_S,
            what=f"{count} entries of {topic} in {name}",
            interval_s=0.1,
        )


def log_of(group: Group, name: str, topic: str) -> list[bytes]:
    """Return the payloads of the cluster's log, in order."""
    return [message.data() for message in read_log(group.client(name), topic)]


def own_properties(message: pulsar.Message) -> dict[str, str]:
    """Return the properties of the application, without those of replication."""
    return {key: value for key, value in message.properties().items() if not key.startswith("__")}


def backlog(group: Group, name: str, topic: str, subscription: str) -> int | None:
    """Return the subscription's backlog in entries; None if it does not exist."""
    response = group.rest(name).request("GET", f"{topic.replace('://', '/')}/stats?getPreciseBacklog=true")
    if not response.is_success:
        return None
    found = response.json()["subscriptions"].get(subscription)
    return found["msgBacklog"] if found else None


def has_subscription(group: Group, name: str, topic: str, subscription: str) -> bool:
    """Return whether the cluster has the subscription."""
    return backlog(group, name, topic, subscription) is not None


def wait_for_backlog(group: Group, topic: str, subscription: str, expected: int, names: Iterable[str]) -> None:
    """Wait until each cluster has exactly ``expected`` unacknowledged entries."""
    for name in names:
        wait_until(
            partial(has_backlog, group, name, topic, subscription, expected),
            PROGRESS_TIMEOUT_S,
            what=f"backlog {expected} of {subscription} in {name}",
        )


def has_backlog(group: Group, name: str, topic: str, subscription: str, expected: int | None) -> bool:
    """Return whether exactly ``expected`` entries are unacknowledged; None: the subscription does not exist."""
    return backlog(group, name, topic, subscription) == expected


def _has_entries(group: Group, name: str, topic: str, count: int) -> bool:
    return entries(group, name, topic) >= count


def take_all(consumer: pulsar.Consumer, is_complete: Callable[[Counter[bytes]], bool], quiet_ms: int) -> Counter[bytes]:
    """Receive and acknowledge until complete, and then until ``quiet_ms`` without a message; count each payload."""
    taken: Counter[bytes] = Counter()
    patience_ms = 30_000
    while True:
        try:
            message = consumer.receive(quiet_ms if is_complete(taken) else patience_ms)
        except pulsar.Timeout:
            return taken
        taken[message.data()] += 1
        consumer.acknowledge(message)


def consume_rest(group: Group, name: str, topic: str, subscription: str, expected: Sequence[bytes]) -> None:
    """Consume the rest of the subscription in the cluster; raises AssertionError for repeated or lost messages."""
    consumer = group.client(name).subscribe(
        topic, subscription, pulsar.ConsumerType.Shared, replicate_subscription_state_enabled=True
    )
    wanted = set(expected)
    taken = take_all(consumer, lambda taken: wanted <= set(taken), quiet_ms=1_000)
    consumer.close()
    repeated = {payload: count for payload, count in taken.items() if payload not in wanted or count > 1}
    lost = wanted - set(taken)
    assert (len(repeated), len(lost)) == (0, 0), f"repeated {sorted(repeated)[:20]}, lost {sorted(lost)[:20]}"
