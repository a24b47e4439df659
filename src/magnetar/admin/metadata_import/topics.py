"""The changes that give topics of the target the partitions, policies and schemas of the source. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.cluster_metadata.document import LATER_POLICIES, MAGNETAR_POLICIES
from magnetar.admin.metadata_import import sending
from magnetar.admin.metadata_import.changes import Change, Reason, Remark
from magnetar.base.names import TopicName
from magnetar.metadata.policy.table import Policy
from magnetar.metasync.units import ResourceType, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from magnetar.admin.metadata_import.changes import Send
    from magnetar.metasync.units import Document

    Value = Any  # any JSON value; None: not set

KIND = ResourceType.TOPICS.value
POLICIES_KIND = ResourceType.TOPIC_POLICIES.value
SCHEMA_KIND = "Schemas"

_POLICIES = {policy.topic.field: policy for policy in Policy if policy.topic is not None}

CLUSTERS = "replicationClusters"
"""The clusters of a topic, which are set if the target has none."""


def creation(topic: TopicName, partitions: int, properties: Mapping[str, str]) -> Change:
    """Return the creation of a topic; 0: without partitions."""
    after: Document = {"partitions": partitions} | ({"properties": dict(properties)} if properties else {})
    return Change(KIND, str(topic), "", None, after, sending.new_topic(topic, partitions, properties))


def change_of(name: str, unit: str, before: Value, after: Value) -> Change | Remark | None:
    """Return the change, or the remark, for a field of a topic that differs; None if it may differ."""
    topic, keys = TopicName.parse(name), keys_of(unit)
    match keys:
        case ["partitions"] if before > after:
            detail = f"the source has {after} partitions, the target {before}: partitions cannot be removed"
            return Remark(Reason.CONFLICT, KIND, name, unit, detail)
        case ["partitions"]:
            return Change(KIND, name, unit, before, after, sending.partitions(topic, after))
        case ["properties", key]:
            return Change(KIND, name, unit, before, after, sending.topic_property(topic, key, after), has_effect=False)
    return None if after is None else Remark(Reason.NO_COUNTERPART, KIND, name, unit, f"the value is {after}")


def policy_change_of(name: str, unit: str, before: Value, after: Value) -> Change | Remark | None:
    """Return the change, or the remark, for a policy of a topic that differs; None if it may differ."""
    topic, keys = TopicName.parse(name), keys_of(unit)
    policy = _POLICIES.get(keys[0])
    send: Send
    match keys:
        case ["replicationClusters"] if before is not None or after is None:
            detail = f"the source has {after or 'those of the namespace'}, the target {before}"
            return Remark(Reason.OF_EACH_CLUSTER, POLICIES_KIND, name, unit, detail)
        case ["replicationClusters"]:
            send = sending.topic_clusters(topic, after)
        case ["backLogQuotaMap", kind]:
            send = sending.backlog_quota(topic, kind, after)
        case ["subscriptionPolicies", subscription]:
            send = sending.subscription_policies(topic, subscription, after)
        case _ if policy is not None and policy is not Policy.ENTRY_FILTERS:
            send = sending.policy(topic, policy, after)
        case _:
            return (
                None
                if after is None
                else Remark(Reason.NO_COUNTERPART, POLICIES_KIND, name, unit, f"the value is {after}")
            )
    has_effect = policy is None or policy.value.has_effect
    return Change(POLICIES_KIND, name, unit, before, after, send, has_effect)


def may_be_unknown(unit: str) -> bool:
    """Return whether Apache Pulsar, or some releases of it, do not have a policy."""
    return _POLICIES.get(keys_of(unit)[0]) in MAGNETAR_POLICIES | LATER_POLICIES


def schema_changes(
    topic: TopicName, before: Sequence[Document], after: Sequence[Document]
) -> Iterator[Change | Remark]:
    """Yield the versions of a schema that the target lacks, in order, and what prevents equal numbers."""
    old, new = list(map(definition_of, before)), list(map(definition_of, after))
    if old != new[: len(old)]:
        detail = "the versions of the target are not the first ones of the source, and versions cannot be replaced"
        yield Remark(Reason.CONFLICT, SCHEMA_KIND, str(topic), "", detail)
        return
    numbers = [each["version"] for each in before]
    numbers += range(numbers[-1] + 1 if numbers else 0, (numbers[-1] + 1 if numbers else 0) + len(new) - len(old))
    other = [
        (each["version"], number) for each, number in zip(after, numbers, strict=True) if each["version"] != number
    ]
    if other:
        pairs = ", ".join(f"{of_source} is {of_target}" for of_source, of_target in other)
        detail = f"versions have other numbers in the target: {pairs}"
        yield Remark(Reason.NO_COUNTERPART, SCHEMA_KIND, str(topic), "", detail)
    for number, definition in list(zip(numbers, new, strict=True))[len(old) :]:
        yield Change(SCHEMA_KIND, str(topic), f"/{number}", None, definition, sending.schema(topic, definition))


def definition_of(version: Document) -> Document:
    """Return the form in which a version is registered."""
    return {"type": version["type"], "schema": version["data"], "properties": version["properties"]}
