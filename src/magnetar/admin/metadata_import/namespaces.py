"""The changes that give a namespace of the target the policies of the source. Pure."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from magnetar.admin.cluster_metadata.document import LATER_POLICIES, MAGNETAR_POLICIES
from magnetar.admin.metadata_import import sending
from magnetar.admin.metadata_import.changes import Change, Reason, Remark
from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policy.table import Policy
from magnetar.metasync.units import ResourceType, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.admin.metadata_import.changes import Send
    from magnetar.metasync.units import Document

    Value = Any  # any JSON value; None: not set

KIND = ResourceType.NAMESPACES.value

_POLICIES = {policy.namespace.field: policy for policy in Policy if policy.namespace is not None}

AT_CREATION = ("replication_clusters", "allowed_clusters", "bundles")
"""Fields that are copied when the namespace is created."""

_PLACEMENT = {
    "namespaceAntiAffinityGroup": sending.anti_affinity_group,
    "bookieAffinityGroup": sending.bookie_affinity_group,
}


def change_of(name: str, unit: str, before: Value, after: Value, cluster: str) -> Change | Remark | None:
    """Return the change, or the remark, for a field of a namespace that differs; None if it may differ.

    ``cluster`` is the target's name.
    """
    keys = keys_of(unit)
    policy = _POLICIES.get(keys[0])
    if policy is not None and policy.value.is_per_cluster and keys[1] != cluster:
        return (
            None
            if after is None
            else Remark(Reason.NO_COUNTERPART, KIND, name, unit, f"a rate of another cluster: {after}")
        )
    send = _send(NamespaceName.parse(name), keys, before, after)
    if send is None:
        return None if after is None else Remark(Reason.NO_COUNTERPART, KIND, name, unit, f"the value is {after}")
    has_effect = keys[0] != "properties" and (policy is None or policy.value.has_effect)
    return Change(KIND, name, unit, before, after, send, has_effect)


def placement_changes(namespace: NamespaceName, before: Document, after: Document) -> Iterator[Change]:
    """Yield the changes of LocalPolicies."""
    for field, send in _PLACEMENT.items():
        old, new = before.get(field), after.get(field)
        if old != new:
            yield Change(KIND, str(namespace), f"/{field}", old, new, send(namespace, new), has_effect=False)


def may_be_unknown(unit: str) -> bool:
    """Return whether Apache Pulsar, or some releases of it, do not have a policy."""
    return _POLICIES.get(keys_of(unit)[0]) in MAGNETAR_POLICIES | LATER_POLICIES


def creation(name: str, document: Document) -> Change:
    """Return the creation of a namespace with its clusters and bundles."""
    after = {field: document[field] for field in AT_CREATION if document.get(field)}
    return Change(KIND, name, "", None, after, sending.new_namespace(NamespaceName.parse(name), after))


def kept(name: str, unit: str, before: Value, after: Value) -> Remark:
    """Return the remark about a field that is copied at the creation only."""
    if unit.startswith("/bundles"):
        before, after = (None if each is None else f"{each['numBundles']} bundles" for each in (before, after))
    return Remark(Reason.OF_EACH_CLUSTER, KIND, name, unit, f"the source has {after}, the target {before}")


def _send(namespace: NamespaceName, keys: list[str], before: Value, after: Value) -> Send | None:
    """Return what makes the change; None if Magnetar does not have the field."""
    send: Send | None = None
    match keys:
        case ["backlog_quota_map", kind]:
            send = sending.backlog_quota(namespace, kind, after)
        case ["properties", key]:
            send = sending.namespace_property(namespace, key, after)
        case ["is_allow_auto_update_schema"]:
            send = sending.auto_update_of_schemas(namespace, after)
        case ["auth_policies", "namespace_auth", role]:
            send = sending.permission(namespace, role, after)
        case ["auth_policies", "destination_auth", topic, role]:
            with suppress(InvalidTopicNameError):
                send = sending.permission(TopicName.parse(topic), role, after)
        case ["auth_policies", "subscription_auth_roles", subscription]:
            send = sending.subscription_roles(namespace, subscription, before, after)
        case ["offload_policies"]:
            send = sending.offload_policies(namespace, after)
        case [field, *_] if field in _POLICIES and _POLICIES[field] is not Policy.ENTRY_FILTERS:
            send = sending.policy(namespace, _POLICIES[field], after)
    return send
