"""Asks the admin APIs of both clusters, and makes the report of a plan."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING

from magnetar.admin.cluster_metadata.document import Selection
from magnetar.admin.cluster_metadata.others import read_others
from magnetar.admin.cluster_metadata.reading import READ, REQUESTS_AT_ONCE, if_present, read_metadata
from magnetar.admin.metadata_import.cluster_names import ClusterNames
from magnetar.admin.metadata_import.plan import plan_import
from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName
from magnetar.metasync.units import ResourceType
from magnetar.migration.planning.clients import client_findings
from magnetar.migration.planning.clusters import cluster_findings, disk_findings
from magnetar.migration.planning.facts import ClusterFacts, PolicyFacts, TopicFacts, topic_facts
from magnetar.migration.planning.findings import Area, Finding, Severity
from magnetar.migration.planning.metadata import allowed_clusters, metadata_findings, other_clusters
from magnetar.migration.planning.report import Report
from magnetar.migration.planning.topics import TopicChecks
from magnetar.migration.sides import SOURCE, TARGET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.admin.cluster_metadata.document import ClusterMetadata
    from magnetar.metasync.units import Document
    from magnetar.migration.scope import Scope
    from magnetar.migration.sides import Side

    Tell = Callable[[str, int, int], None]
    """Is told how much was read: one of STEPS, the number so far, and the number of all."""

STEPS = (*(f"{each} of the {side}" for side in (SOURCE, TARGET) for each in READ), "statistics")

_ABSENT = (HTTPStatus.NOT_FOUND, HTTPStatus.PRECONDITION_FAILED)
"""Answers about a topic that does not exist, or whose namespace is not in the cluster."""


def plan(scope: Scope, source: Side, target: Side, tell: Tell = lambda *_: None) -> Report:
    """Return the report. Raises UnansweredError."""
    here, of_source = _read(source, scope, tell)
    there, of_target = _read(target, scope, tell)
    found = Report(source=here.cluster, target=there.cluster, scope=str(scope), connections=Counter())
    found.findings.add(_missing(scope, here))
    found.findings.add(_bound(scope, here))
    found.findings.add(cluster_findings(of_source, of_target))
    if here.cluster == there.cluster:
        return found
    both = {here.cluster: [here.cluster, there.cluster]}
    changes = plan_import(here, there, ClusterNames(here, there, both))
    found.changes = len(changes.changes)
    found.findings.add(metadata_findings(changes, scope, of_source, of_target))
    namespaces = documents_in(here, ResourceType.NAMESPACES)
    found.namespaces = len(namespaces)
    found.findings.add(allowed_clusters(_field(namespaces, "allowed_clusters"), of_target))
    clusters, known = (
        _field(each, "replication_clusters") for each in (namespaces, documents_in(there, ResourceType.NAMESPACES))
    )
    found.findings.add(other_clusters(clusters, known, of_source, of_target))
    policies = PolicyFacts(namespaces, documents_in(here, ResourceType.TOPIC_POLICIES))
    _add_topics(found, here, there, TopicChecks(of_source, of_target, policies), (source, target), tell)
    found.findings.add(client_findings(found.connections, of_source))
    found.findings.add(disk_findings(of_target, found.storage_bytes))
    return found


def selection_of(scope: Scope) -> Selection:
    """Return the metadata that belong to a scope."""
    is_whole = not (scope.namespaces or scope.topics)
    return Selection((scope.tenant,) if is_whole else (), scope.namespaces, scope.topics)


def _read(side: Side, scope: Scope, tell: Tell) -> tuple[ClusterMetadata, ClusterFacts]:
    with side.answers():
        found = read_metadata(
            side.client, selection_of(scope), lambda what, *numbers: tell(f"{what} of the {side.role}", *numbers)
        )
        if not found.is_magnetar:
            found.others.extend(read_others(side.client, found))
        settings = side.client.brokers.runtime_configuration()
    return found, ClusterFacts(
        found.cluster, found.is_magnetar, side.options, settings, frozenset(found.clusters) | {found.cluster}
    )


def _missing(scope: Scope, source: ClusterMetadata) -> Iterator[Finding]:
    """Yield the parts of the scope that the source does not have."""
    tenants, namespaces = (documents_in(source, kind) for kind in (ResourceType.TENANTS, ResourceType.NAMESPACES))
    topics = {*documents_in(source, ResourceType.TOPICS), *map(str, source.topics)}
    found = [] if scope.tenant in tenants else [(scope.tenant, "tenants list")]
    found += [(str(each), "namespaces list TENANT") for each in scope.namespaces if str(each) not in namespaces]
    found += [(str(each), "topics list NAMESPACE") for each in scope.topics if str(each) not in topics]
    for name, command in found:
        yield Finding(
            Severity.BLOCKER, Area.NAMES, name, "the source does not have it", f"list what it has: magnetar {command}"
        )


def _bound(scope: Scope, source: ClusterMetadata) -> Iterator[Finding]:
    """Yield the topics that move with their namespaces only: pipelines read whole namespaces of Apache Pulsar."""
    for topic in () if source.is_magnetar else scope.topics:
        reason = "a topic of Apache Pulsar moves with its namespace only"
        yield Finding(Severity.BLOCKER, Area.NAMES, str(topic), reason, f"use --namespace {topic.namespace_name}")


def _add_topics(
    found: Report,
    source: ClusterMetadata,
    target: ClusterMetadata,
    checks: TopicChecks,
    sides: tuple[Side, Side],
    tell: Tell,
) -> None:
    """Add the findings of all topics; their statistics are dropped one by one."""
    here, there = sides
    known = set(parts_in(target))

    def read(topic: TopicName) -> tuple[TopicFacts | None, TopicFacts | None]:
        facts = _facts(here, topic, target.cluster)
        return facts, _facts(there, topic, source.cluster) if topic in known else None

    topics = sorted(parts_in(source))
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        for done, (facts, in_target) in enumerate(pool.map(read, topics), 1):
            tell(STEPS[-1], done, len(topics))
            if facts is None:
                continue
            found.topics += 1
            found.subscriptions += len(facts.subscriptions)
            found.storage_bytes += facts.storage_bytes
            found.connections.update(facts.connections)
            found.findings.add(checks.findings(facts, in_target))


def _facts(side: Side, topic: TopicName, other: str) -> TopicFacts | None:
    with side.answers():
        try:
            stats = if_present(side.client.topics.stats, topic)
        except AdminError as error:
            if error.status not in _ABSENT:
                raise
            return None
    return None if stats is None else topic_facts(topic, stats, other)


def parts_in(metadata: ClusterMetadata) -> Iterator[TopicName]:
    """Yield the persistent topics without partitions, and the partitions of the others."""
    yield from (topic for topic in metadata.topics if topic.is_persistent)
    for name, document in documents_in(metadata, ResourceType.TOPICS).items():
        topic = TopicName.parse(name)
        if topic.is_persistent:
            yield from map(topic.partition, range(document["partitions"]))


def documents_in(metadata: ClusterMetadata, kind: ResourceType) -> dict[str, Document]:
    """Return the documents of a kind, by the name of the resource."""
    return {resource.name: found for resource, found in metadata.resources.items() if resource.kind is kind}


def _field(documents: dict[str, Document], name: str) -> dict[str, list[str]]:
    return {owner: document.get(name) or [] for owner, document in documents.items()}
