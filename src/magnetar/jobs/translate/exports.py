"""The acknowledgement states of subscriptions in both clusters, Magnetar or Apache Pulsar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import TopicName
from magnetar.jobs.acknowledgements import STATES, exported, in_internal_stats, named
from magnetar.jobs.survey import unless_missing
from magnetar.spark.read.cluster import cursor_in, ledgers_in
from magnetar.wire.links import BOOKMARK_PREFIX, FOREIGN_LINK_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.jobs.survey import Subscribed, Survey

_INTERNAL: Final = ("__compaction", FOREIGN_LINK_PREFIX, BOOKMARK_PREFIX)
"""Prefixes of subscriptions of brokers and pipelines in Apache Pulsar, whose positions mean nothing elsewhere."""


def chosen(by_topic: Mapping[str, Mapping[str, Subscribed] | None], wanted: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the subscriptions to translate, by topic; topics without any are left out.

    Raises ConfigurationError for a name that no topic has.
    """
    listed = {name for found in by_topic.values() for name in found or () if not name.startswith(_INTERNAL)}
    missing = sorted(set(wanted) - listed)
    if missing:
        message = f"--subscriptions: no topic has a durable subscription {', '.join(missing)}"
        raise ConfigurationError(message)
    names = {
        topic: sorted(name for name in found or () if (not wanted or name in wanted) and not name.startswith(_INTERNAL))
        for topic, found in by_topic.items()
    }
    return {topic: each for topic, each in names.items() if each}


def export(survey: Survey, clusters: Iterable[str], topic: str, subscriptions: Sequence[str]) -> pa.Table:
    """Return the states of the subscriptions of a topic as STATES, without those that a cluster does not have."""
    tables = [STATES.empty_table()]
    for cluster in clusters:
        states = _states(survey.client(cluster), TopicName.parse(topic), subscriptions)
        tables += [named(state, subscription, cluster) for subscription, state in states]
    return pa.concat_tables(tables)


def _states(client: AdminClient, topic: TopicName, subscriptions: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    if client.brokers.is_magnetar():
        for subscription in subscriptions:
            state = unless_missing(exported, client, topic, subscription)
            if state is not None:
                yield subscription, state
        return
    stats = unless_missing(client.topics.internal_stats, topic)
    if stats is None:
        return
    for subscription in subscriptions:
        cursor = cursor_in(stats, subscription)
        if cursor is not None:
            yield subscription, in_internal_stats(cursor, [ledger.ledger_id for ledger in ledgers_in(stats)])
