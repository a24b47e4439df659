"""The checks of the admin API, for values that other clusters have set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.admin.handlers.namespaces import checked_bundles
from magnetar.admin.handlers.policy_checks import check_value
from magnetar.base.errors import AdminError
from magnetar.base.limits import PARTITIONS_MAX
from magnetar.metadata.policies import BundlesData, Policies, TopicPolicies
from magnetar.metadata.policy.table import Policy
from magnetar.metasync.units import ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection

    from magnetar.metasync.units import Document

_UNCHECKED = frozenset({Policy.OFFLOAD_POLICIES})
"""The thresholds of offloading set these policies without a driver, which a call that sets all of them needs."""


def check_fields(kind: ResourceType, document: Document, fields: Collection[str]) -> None:
    """Raise ValueError if an admin call would refuse the values of these fields; see Check.

    Checks that compare two fields are left out: each of two clusters can have changed one of them.
    """
    try:
        match kind:
            case ResourceType.NAMESPACES:
                policies = Policies.model_validate(document)
                _check_policies(policies, fields)
                if "bundles" in fields:
                    _check_bundles(policies.bundles)
            case ResourceType.TOPIC_POLICIES:
                _check_policies(TopicPolicies.model_validate(document), fields)
            case ResourceType.TOPICS if "partitions" in fields and not 0 < document["partitions"] <= PARTITIONS_MAX:
                message = f"{document['partitions']} partitions: a topic has 1 to {PARTITIONS_MAX}"
                raise ValueError(message)
    except AdminError as error:
        raise ValueError(str(error)) from None


def _check_policies(policies: Policies | TopicPolicies, fields: Collection[str]) -> None:
    is_namespace = isinstance(policies, Policies)
    for policy in Policy:
        level = policy.namespace if is_namespace else policy.topic
        if level is None or level.field not in fields or policy in _UNCHECKED:
            continue
        value: Any = getattr(policies, level.field)
        for each in value.values() if is_namespace and policy.value.is_per_cluster else [value]:
            if each != level.unset:
                check_value(policy, level, each)


def _check_bundles(bundles: BundlesData) -> None:
    if bundles != BundlesData() and bundles != checked_bundles(bundles):
        message = f"{bundles.numBundles} bundles with other boundaries than those that divide all hashes"
        raise ValueError(message)
