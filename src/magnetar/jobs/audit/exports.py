"""The acknowledgement state of replicated subscriptions, exported by the admin API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from magnetar.base.names import TopicName
from magnetar.jobs.acknowledgements import STATES, exported, named
from magnetar.jobs.audit.tables import Kind
from magnetar.jobs.survey import unless_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from magnetar.jobs.survey import Subscribed, Survey


class Comparable(NamedTuple):
    """The replicated subscriptions of one topic."""

    clusters: Mapping[str, frozenset[str]]
    """By subscription, the clusters in which it is compared; at least two."""
    missing: Mapping[str, frozenset[str]]
    """By subscription, the clusters in which it does not exist."""
    excluded: Mapping[str, str]
    """By subscription that is not compared, the reason."""


def comparable(by_cluster: Mapping[str, Mapping[str, Subscribed]]) -> Comparable:
    """Decide which subscriptions of a topic are compared, from those in each cluster that has the topic."""
    clusters, missing, excluded = {}, {}, {}
    for name in sorted({name for found in by_cluster.values() for name in found}):
        found = {cluster: each[name] for cluster, each in by_cluster.items() if name in each}
        replicated = {cluster for cluster, each in found.items() if each.is_replicated}
        inexact = {other for each in found.values() for other in each.inexact}
        exact = frozenset(replicated - inexact)
        lacking = frozenset(by_cluster.keys() - found.keys() - inexact)
        if not replicated:
            excluded[name] = "it is not replicated"
        elif len(exact) + len(lacking) < 2:  # noqa: PLR2004 - a comparison needs two
            excluded[name] = "it is replicated with snapshots" if inexact else "it is replicated in one cluster only"
        else:
            if len(exact) > 1:
                clusters[name] = exact
            if lacking:
                missing[name] = lacking
    return Comparable(clusters, missing, excluded)


def missing_rows(topic: str, found: Comparable, clusters: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the findings about subscriptions that a cluster lacks."""
    for subscription, lacking in found.missing.items():
        others = ",".join(sorted(set(clusters) - lacking))
        for cluster in sorted(lacking):
            same = {"kind": Kind.NO_SUBSCRIPTION.value, "topic": topic, "subscription": subscription}
            yield {**same, "cluster": cluster, "origin": cluster, "other": others}


def export(survey: Survey, topic: str, found: Comparable) -> pa.Table:
    """Return the acknowledgement states of a topic as STATES. A subscription that was deleted meanwhile is left out."""
    tables = [STATES.empty_table()]
    for subscription, clusters in found.clusters.items():
        for cluster in sorted(clusters):
            state = unless_missing(exported, survey.client(cluster), TopicName.parse(topic), subscription)
            if state is not None:
                tables.append(named(state, subscription, cluster))
    return pa.concat_tables(tables)
