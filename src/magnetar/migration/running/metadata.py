"""The step *metadata*: the target gets what the source has, empty topics included."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from magnetar.admin.cluster_metadata.reading import read_metadata
from magnetar.admin.metadata_import.apply import apply
from magnetar.admin.metadata_import.changes import Reason
from magnetar.admin.metadata_import.cluster_names import ClusterNames
from magnetar.admin.metadata_import.plan import plan_import
from magnetar.base.errors import AdminError, MigrationError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metasync.units import ResourceType
from magnetar.migration.planning.gathering import documents_in, parts_in, selection_of

if TYPE_CHECKING:
    from collections.abc import Container

    from magnetar.admin.cluster_metadata.document import ClusterMetadata
    from magnetar.admin.metadata_import.apply import Refusal
    from magnetar.admin.metadata_import.changes import Plan
    from magnetar.migration.running.pair import Pair
    from magnetar.migration.scope import Scope

ATTEMPTS = 3
"""Comparisons before a refusal is an error: the metadata synchronizer can create the same resources meanwhile."""


class Listing(NamedTuple):
    """The topics and places of the source."""

    topics: list[str]
    places: list[str]
    """Namespaces, then topics that move alone, or have clusters of their own."""


def copy_metadata(pair: Pair, known: Container[str] = ()) -> Listing:
    """Give the target the metadata of the source, and list its topics. What is equal is not written.

    If there are topics that are not ``known``, the ledger ids of the target are raised first above those of the source:
    clients compare message ids, and keep those of the source when they move. Raises MigrationError if something cannot
    be made equal, or the target refuses it.
    """
    selection = selection_of(pair.scope)
    with pair.source.answers():
        if not pair.from_pulsar:
            _allow_target(pair)
        source = read_metadata(pair.source.client, selection)
    listing = _listing(pair.scope, source)
    if any(topic not in known for topic in listing.topics):
        with pair.target.answers():
            pair.target.client.brokers.raise_ledger_ids()
    refused: list[Refusal] = []
    for _ in range(ATTEMPTS):
        with pair.target.answers():
            target = read_metadata(pair.target.client, selection)
            refused = _copy(pair, source, target)
        if not refused:
            return listing
    change, error = refused[0]
    message = f"the target refused {len(refused)} changes of metadata; the first: {change.kind} {change.name}"
    message += f"{change.field}: {error}"
    raise MigrationError(message)


def _copy(pair: Pair, source: ClusterMetadata, target: ClusterMetadata) -> list[Refusal]:
    """Make the metadata of the target those of the source; return what it refused."""
    client = pair.target.client
    names = ClusterNames(source, target, {pair.source_name: [pair.source_name, pair.target_name]})
    names.require_known(source)
    plan = plan_import(source, target, names)
    _require_no_conflict(plan)
    tenants = [each for each in plan.changes if each.kind == ResourceType.TENANTS.value]
    refused = apply(client, tenants)
    _serve_namespaces(pair, source, target)
    refused += apply(client, [each for each in plan.changes if each not in tenants])
    _serve_alone(pair, target)
    return refused


def _serve_namespaces(pair: Pair, source: ClusterMetadata, target: ClusterMetadata) -> None:
    """Let the target serve namespaces that it has already.

    The metadata synchronizer creates them with the clusters of the source, and topics cannot be created there before. A
    namespace that was moved away from the target before has the clusters of that time.
    """
    known = documents_in(target, ResourceType.NAMESPACES)
    for name, document in documents_in(source, ResourceType.NAMESPACES).items():
        clusters = known[name].get("replication_clusters") or [] if name in known else [pair.target_name]
        if pair.target_name not in clusters:
            present = [each for each in clusters if each in (document.get("replication_clusters") or [])]
            pair.target.client.namespaces.set_clusters(NamespaceName.parse(name), [*present, pair.target_name])


def _serve_alone(pair: Pair, before: ClusterMetadata) -> None:
    """Let only the target have namespaces that it did not have, and of which only some topics move."""
    known = documents_in(before, ResourceType.NAMESPACES)
    for namespace in pair.scope.namespaces_of_topics:
        if pair.target_name not in (known.get(str(namespace), {}).get("replication_clusters") or []):
            pair.target.client.namespaces.set_clusters(namespace, [pair.target_name])


def create_topic(pair: Pair, name: str) -> None:
    """Create a topic without partitions, or a partition, in the target, if it does not exist there."""
    with pair.target.answers():
        try:
            pair.target.client.topics.create(TopicName.parse(name))
        except AdminError as error:
            if error.status is not HTTPStatus.CONFLICT:
                raise


def _allow_target(pair: Pair) -> None:
    tenants = pair.source.client.tenants
    info = tenants.get(pair.scope.tenant)
    allowed = info.get("allowedClusters", [])
    if pair.target_name not in allowed:
        tenants.update(pair.scope.tenant, [*allowed, pair.target_name], info.get("adminRoles", []))


def _require_no_conflict(plan: Plan) -> None:
    conflicts = [each for each in plan.remarks if each.reason is Reason.CONFLICT]
    if conflicts:
        first = conflicts[0]
        message = (
            f"{len(conflicts)} resources of the target cannot be made equal; the first: {first.kind} {first.name}: "
        )
        message += f"{first.detail}\nhint: magnetar migrate plan shows all of them"
        raise MigrationError(message)


def _listing(scope: Scope, source: ClusterMetadata) -> Listing:
    whole = documents_in(source, ResourceType.NAMESPACES).keys() - set(map(str, scope.namespaces_of_topics))
    own = [
        name
        for name, document in documents_in(source, ResourceType.TOPIC_POLICIES).items()
        if document.get("replicationClusters")
    ]
    places = [*sorted(whole), *sorted({*own, *map(str, scope.topics)})]
    return Listing(sorted(map(str, parts_in(source))), places)
