"""Statistics of links, summed over topics: cheap enough for a request every few seconds with 10,000 topics."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from magnetar.admin.models.links import LinkTotals

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.broker.environment import Environment
    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.broker.topic.registry import TopicRegistry


def link_totals_steps(
    environment: Environment, topics: TopicRegistry
) -> Generator[None, None, dict[str, dict[str, LinkTotals]]]:
    """Return the totals by namespace and remote cluster, in steps; a replicated topic that is not loaded is unknown."""
    found: defaultdict[str, defaultdict[str, LinkTotals]] = defaultdict(lambda: defaultdict(LinkTotals))
    for name in tuple(topics.loaded):
        yield
        topic = topics.loaded.get(name)
        for remote, replicator in () if topic is None else topic.replicators.items():
            _add(found[str(name.namespace_name)][remote], replicator)
    for name in topics.load_failures.reasons:
        yield
        for remote in environment.targets_of_topic(name):
            found[str(name.namespace_name)][remote].add_unknown()
    return {namespace: dict(sorted(links.items())) for namespace, links in sorted(found.items())}


def _add(totals: LinkTotals, replicator: Replicator) -> None:
    backlog, delay_s = replicator.backlog, replicator.lag.delay_s()
    totals.topics += 1
    totals.unknown_topics += backlog is None
    totals.connected_topics += replicator.is_carried
    totals.parked_topics += replicator.parking.reason is not None
    totals.msg_out_count += replicator.sent[0]
    known = totals.replication_backlog
    totals.replication_backlog = None if known is None or backlog is None else known + backlog
    oldest_s = totals.replication_delay_in_seconds
    totals.replication_delay_in_seconds = None if oldest_s is None or delay_s is None else max(oldest_s, delay_s)
