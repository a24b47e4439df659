"""The step *data*: links to the target, which begin at the earliest entry, and what they still have to carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.admin.cluster_metadata.reading import if_present
from magnetar.base.names import NamespaceName, TopicName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.admin.client import AdminClient
    from magnetar.migration.running.pair import Pair
    from magnetar.migration.sides import Side

    Place = NamespaceName | TopicName


class LinkState(NamedTuple):
    """How far a link has come."""

    backlog: int | None
    """Entries that the target does not have; None: unknown."""
    delay_s: float | None
    """Age of the oldest of them; None: unknown."""
    waits_for: str
    """Why it is not carried now; empty: it is."""


def clusters_of(pair: Pair, name: str) -> list[str]:
    """Return the clusters that a place of the source sets."""
    with pair.source.answers():
        return _clusters(pair.source.client, place_of(name))


def link(pair: Pair, name: str, before: Sequence[str]) -> None:
    """Replicate a place between both clusters, besides the clusters ``before`` of the source, if it sets some."""
    place = place_of(name)
    link_target(pair, name)
    with pair.source.answers():
        _add(pair.source.client, place, [*before, pair.target_name])


def link_target(pair: Pair, name: str) -> None:
    """Replicate a place between both clusters in the target, which is enough if the source is Apache Pulsar."""
    with pair.target.answers():
        _add(pair.target.client, place_of(name), [pair.source_name, pair.target_name])


def unlink(pair: Pair, name: str, before: Sequence[str]) -> None:
    """Give a place of the source the clusters that it had before the migration, and end the links of the target to it.

    What the links have carried stays in the target. A topic that had no clusters of its own has none again.
    """
    if pair.target_name not in before:
        unlink_target(pair, name, before)
    with pair.source.answers():
        _set(pair.source.client, place_of(name), before)


def unlink_target(pair: Pair, name: str, before: Sequence[str]) -> None:
    """End the links of a place of the target to the source; ``before`` as for ``unlink``."""
    place = place_of(name)
    with pair.target.answers():
        rest = [each for each in _clusters(pair.target.client, place) if each != pair.source_name]
        _set(pair.target.client, place, rest if before else ())


def set_clusters(side: Side, name: str, clusters: Sequence[str]) -> None:
    """Set the clusters of a place in one cluster, where they differ."""
    with side.answers():
        _set(side.client, place_of(name), clusters)


def link_state(pair: Pair, name: str) -> LinkState:
    """Return the state of the link of a topic to the target. A topic that was deleted has nothing left to carry."""
    with pair.source.answers():
        stats = if_present(pair.source.client.topics.stats, TopicName.parse(name))
    if stats is None:
        return LinkState(0, 0.0, "")
    found = stats["replication"].get(pair.target_name)
    if found is None:
        return LinkState(None, None, "the link is not open yet")
    waits_for = ""
    if found.get("parkedReason"):
        waits_for = f"the link is parked: {found['parkedReason']}"
    elif not found.get("connected"):
        waits_for = "no pipeline carries the link"
    return LinkState(found.get("replicationBacklog"), found.get("replicationDelayInSeconds"), waits_for)


def place_of(name: str) -> Place:
    """Return the namespace, or the topic, that a name of a place names."""
    return TopicName.parse(name) if "://" in name else NamespaceName.parse(name)


def _clusters(client: AdminClient, place: Place) -> list[str]:
    if isinstance(place, TopicName):
        return client.topic_documents.clusters(place)
    return client.namespaces.clusters(place)


def _add(client: AdminClient, place: Place, wanted: Sequence[str]) -> None:
    known = _clusters(client, place)
    if not known and isinstance(place, TopicName):
        known = client.namespaces.clusters(place.namespace_name)
    _set(client, place, list(dict.fromkeys([*known, *wanted])))


def _set(client: AdminClient, place: Place, clusters: Sequence[str]) -> None:
    """Set the clusters of a place, where they differ; for a topic, none means those of its namespace."""
    if sorted(_clusters(client, place)) == sorted(clusters):
        return
    if isinstance(place, TopicName) and not clusters:
        client.topic_documents.remove_clusters(place)
    elif isinstance(place, TopicName):
        client.topic_documents.set_clusters(place, clusters)
    else:
        client.namespaces.set_clusters(place, clusters)
