"""Compares two clusters, and plans the changes that make the target's metadata those of the source. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.metadata_import import namespaces, sending, topics
from magnetar.admin.metadata_import.changes import Change, Plan, Reason, Remark
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metasync.comparison import differences
from magnetar.metasync.places import Resource
from magnetar.metasync.units import ResourceType, keys_of, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.admin.cluster_metadata.document import ClusterMetadata
    from magnetar.admin.metadata_import.cluster_names import ClusterNames
    from magnetar.metasync.comparison import Difference

_SOURCE, _TARGET = "source", "target"


def plan_import(source: ClusterMetadata, target: ClusterMetadata, names: ClusterNames) -> Plan:
    """Return the changes of the target, in an order in which they can be made, and what cannot be imported.

    Topics come before schemas, and schemas before policies, which could forbid new topics and schemas.
    """
    return _Planner(source, target, names).plan()


class _Planner:
    def __init__(self, source: ClusterMetadata, target: ClusterMetadata, names: ClusterNames) -> None:
        self._source = source
        self._target = target
        self._names = names
        self._resources = names.translated(source)
        self._partitioned = {TopicName.parse(each.name) for each in self._resources if each.kind is ResourceType.TOPICS}

    def plan(self) -> Plan:
        plan = Plan()
        found = self._differences()
        parts: list[Iterable[Change | Remark | None]] = [
            self._clusters(),
            self._tenants(found),
            self._new_namespaces(),
            self._new_topics(),
            self._changed_topics(found),
            self._schemas(),
            self._namespaces(found),
            self._topic_policies(found),
            self._only_in_target(),
            (Remark(Reason.NO_COUNTERPART, each.kind, each.name, "", each.detail) for each in self._source.others),
        ]
        for part in parts:
            for each in part:
                if isinstance(each, Change):
                    plan.changes.append(each)
                elif each is not None:
                    plan.remarks.append(each)
        return plan

    def _differences(self) -> dict[ResourceType, list[Difference]]:
        """Return the differences by kind. Whatever the target lacks counts as empty."""
        compared = dict(self._resources)
        for resource in self._target.resources:
            # A topic that has no policies in the source must have none in the target.
            if resource.kind is ResourceType.TOPIC_POLICIES and self._is_topic(TopicName.parse(resource.name)):
                compared.setdefault(resource, {})
        known = {resource: self._target.resources.get(resource, {}) for resource in compared}
        found: dict[ResourceType, list[Difference]] = {kind: [] for kind in ResourceType}
        for each in differences({_SOURCE: compared, _TARGET: known}):
            found[each.resource.kind].append(each)
        return found

    def _is_topic(self, topic: TopicName) -> bool:
        return topic in self._partitioned or topic in self._source.topics

    def _clusters(self) -> Iterator[Change]:
        for name, data in self._names.to_register(self._source).items():
            yield Change("Clusters", name, "", None, data, sending.new_cluster(name, data))

    def _tenants(self, found: dict[ResourceType, list[Difference]]) -> Iterator[Change | Remark]:
        for resource, info in self._of_kind(ResourceType.TENANTS):
            if resource not in self._target.resources:
                name, allowed, roles = resource.name, info.get("allowedClusters", []), info.get("adminRoles", [])
                after = {"allowedClusters": allowed, "adminRoles": roles}
                yield Change(
                    ResourceType.TENANTS.value, name, "", None, after, sending.new_tenant(name, allowed, roles)
                )
            else:
                yield from self._further_clusters(resource, self._target.resources[resource])
        for each in found[ResourceType.TENANTS]:
            before = self._target.resources.get(each.resource)
            if before is not None:
                yield from self._tenant_change(each, before)

    def _further_clusters(self, resource: Resource, before: dict[str, Any]) -> Iterator[Change]:
        known, allowed = before.get("allowedClusters", []), self._allowed(resource, before)
        if allowed != known:
            yield Change(
                ResourceType.TENANTS.value,
                resource.name,
                "/allowedClusters",
                known,
                allowed,
                sending.tenant(resource.name, allowed, self._resources[resource].get("adminRoles", [])),
            )

    def _allowed(self, resource: Resource, before: dict[str, Any]) -> list[str]:
        """Return the clusters of both: namespaces may need further ones, and the target may need the others."""
        known = before.get("allowedClusters", [])
        return [*known, *(each for each in self._resources[resource].get("allowedClusters", []) if each not in known)]

    def _tenant_change(self, difference: Difference, before: dict[str, Any]) -> Iterator[Change | Remark]:
        resource, unit = difference.resource, difference.unit
        roles = self._resources[resource].get("adminRoles", [])
        if unit == "/adminRoles":
            yield Change(
                ResourceType.TENANTS.value,
                resource.name,
                unit,
                before.get("adminRoles"),
                roles,
                sending.tenant(resource.name, self._allowed(resource, before), roles),
            )
        elif keys_of(unit)[0] != "allowedClusters" and difference.values[_SOURCE] is not None:
            detail = f"the value is {difference.values[_SOURCE]}"
            yield Remark(Reason.NO_COUNTERPART, ResourceType.TENANTS.value, resource.name, unit, detail)

    def _new_namespaces(self) -> Iterator[Change]:
        for resource, document in self._of_kind(ResourceType.NAMESPACES):
            if resource not in self._target.resources:
                yield namespaces.creation(resource.name, document)

    def _namespaces(self, found: dict[ResourceType, list[Difference]]) -> Iterator[Change | Remark | None]:
        # The thresholds of offloading change the offload policies.
        in_order = sorted(found[ResourceType.NAMESPACES], key=lambda each: each.unit == "/offload_policies")
        for each in in_order:
            before, after, keys = each.values[_TARGET], each.values[_SOURCE], keys_of(each.unit)
            if keys[0] in namespaces.AT_CREATION:
                if each.resource in self._target.resources:
                    yield namespaces.kept(each.resource.name, each.unit, before, after)
            elif self._source.is_magnetar or after is not None or not namespaces.may_be_unknown(each.unit):
                yield namespaces.change_of(each.resource.name, each.unit, before, after, self._target.cluster)
        for resource, _ in self._of_kind(ResourceType.NAMESPACES):
            namespace = NamespaceName.parse(resource.name)
            known, wanted = (each.placements.get(namespace, {}) for each in (self._target, self._source))
            yield from namespaces.placement_changes(namespace, known, wanted)

    def _new_topics(self) -> Iterator[Change | Remark]:
        for resource, document in self._of_kind(ResourceType.TOPICS):
            topic = TopicName.parse(resource.name)
            if topic in self._target.topics:
                detail = f"the source has {document['partitions']} partitions, the topic of the target has none"
                yield Remark(Reason.CONFLICT, topics.KIND, resource.name, "/partitions", detail)
            elif resource not in self._target.resources:
                yield topics.creation(topic, document["partitions"], document.get("properties") or {})
        for topic in sorted(self._topics_with_metadata()):
            if Resource(ResourceType.TOPICS, str(topic)) in self._target.resources:
                detail = "the topic of the source has no partitions, that of the target has some"
                yield Remark(Reason.CONFLICT, topics.KIND, str(topic), "/partitions", detail)
            elif topic not in self._target.topics:
                yield topics.creation(topic, 0, self._source.properties.get(topic, {}))

    def _topics_with_metadata(self) -> set[TopicName]:
        """Return the topics without partitions that must exist for their metadata."""
        policies = {TopicName.parse(each.name) for each, _ in self._of_kind(ResourceType.TOPIC_POLICIES)}
        return (policies | self._source.properties.keys() | self._source.schemas.keys()) - self._partitioned

    def _changed_topics(self, found: dict[ResourceType, list[Difference]]) -> Iterator[Change | Remark | None]:
        for each in found[ResourceType.TOPICS]:
            if each.resource in self._target.resources:
                yield topics.change_of(each.resource.name, each.unit, each.values[_TARGET], each.values[_SOURCE])
        for topic in sorted(self._source.topics & self._target.topics):
            known, wanted = (each.properties.get(topic, {}) for each in (self._target, self._source))
            for key in sorted(known.keys() | wanted.keys()):
                if known.get(key) != wanted.get(key):
                    yield topics.change_of(str(topic), unit_of(["properties", key]), known.get(key), wanted.get(key))

    def _schemas(self) -> Iterator[Change | Remark]:
        for topic, versions in sorted(self._source.schemas.items()):
            yield from topics.schema_changes(topic, self._target.schemas.get(topic, []), versions)

    def _topic_policies(self, found: dict[ResourceType, list[Difference]]) -> Iterator[Change | Remark | None]:
        for each in found[ResourceType.TOPIC_POLICIES]:
            after = each.values[_SOURCE]
            if self._source.is_magnetar or after is not None or not topics.may_be_unknown(each.unit):
                yield topics.policy_change_of(each.resource.name, each.unit, each.values[_TARGET], after)

    def _only_in_target(self) -> Iterator[Remark]:
        for resource in sorted(self._target.resources.keys() - self._resources.keys(), key=lambda each: each.name):
            if resource.kind is not ResourceType.TOPIC_POLICIES:
                yield Remark(Reason.ONLY_IN_TARGET, resource.kind.value, resource.name, "")

    def _of_kind(self, kind: ResourceType) -> list[tuple[Resource, dict[str, Any]]]:
        found = [(resource, document) for resource, document in self._resources.items() if resource.kind is kind]
        return sorted(found, key=lambda item: item[0].name)
