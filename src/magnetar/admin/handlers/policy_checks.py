"""Checks of the values of policies, with Pulsar's answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.handlers.backlog_quotas import check_quota
from magnetar.base.errors import AdminError
from magnetar.metadata.policy.table import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.metadata.policies import Policies
    from magnetar.metadata.policy.description import Custody, Level
    from magnetar.metadata.policy.values import (
        AutoTopicCreation,
        EntryFilters,
        OffloadPolicies,
        PersistencePolicies,
        RetentionPolicies,
    )

_RETENTION_CONFLICT = (
    "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits has a "
    "non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable retention both limits "
    "must be set to 0."
)

_OFFLOAD_DRIVERS = ("S3", "aws-s3", "google-cloud-storage", "filesystem", "azureblob", "aliyun-oss")

_ENSEMBLE_MAX = 5


def check_value(policy: Policy, level: Level, value: Any) -> None:  # noqa: ANN401 - of any policy
    """Refuse an invalid value of a policy with 400 or 412; None removes the policy, so it is valid."""
    if value is None:
        return
    if level.refusal and value < 0:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, level.refusal)
    if policy in _CHECKS:
        _CHECKS[policy](value)


def check(policies: Policies) -> None:
    """Check policies that are set together, as if they were set individually."""
    for policy in Policy:
        if policy.namespace is not None:
            value = getattr(policies, policy.namespace.field)
            values = value.values() if policy.value.is_per_cluster else [value]
            for each in values:
                if each != policy.namespace.unset:
                    check_value(policy, policy.namespace, each)
    for kind, quota in policies.backlog_quota_map.items():
        check_quota(kind, quota, policies.retention_policies, "namespace")


def _check_retention(retention: RetentionPolicies) -> None:
    time, size = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    if time < -1:
        raise AdminError(HTTPStatus.BAD_REQUEST, "Invalid retention policy: time limit must be >= -1")
    if size < -1:
        raise AdminError(HTTPStatus.BAD_REQUEST, "Invalid retention policy: size limit must be >= -1")
    if (time == 0) != (size == 0):
        raise AdminError(HTTPStatus.BAD_REQUEST, _RETENTION_CONFLICT)


def _check_persistence(wanted: PersistencePolicies) -> None:
    ensemble, writes, acks = wanted.bookkeeperEnsemble, wanted.bookkeeperWriteQuorum, wanted.bookkeeperAckQuorum
    if not 0 < ensemble <= _ENSEMBLE_MAX:
        raise AdminError(HTTPStatus.BAD_REQUEST, f"Bookkeeper-Ensemble must be <= {_ENSEMBLE_MAX} and > 0.")
    if not ensemble >= writes >= acks > 0:
        message = f"Bookkeeper Ensemble ({ensemble}) >= WriteQuorum ({writes}) >= AckQuorum ({acks})"
        raise AdminError(HTTPStatus.BAD_REQUEST, message)


def _check_auto_topic_creation(wanted: AutoTopicCreation) -> None:
    """Refuse with 412 a type or a number of partitions that do not fit."""
    if not wanted.allowAutoTopicCreation:
        return
    partitions, problem = wanted.defaultNumPartitions, ""
    if wanted.topicType not in ("partitioned", "non-partitioned"):
        problem = f"Unknown topic type [{wanted.topicType or 'null'}]"
    elif wanted.topicType == "partitioned" and partitions is None:
        problem = "[defaultNumPartitions] cannot be null when the type is partitioned."
    elif wanted.topicType == "partitioned" and partitions is not None and partitions < 1:
        problem = "[defaultNumPartitions] cannot be less than 1 for partition type."
    elif wanted.topicType == "non-partitioned" and partitions is not None:
        problem = "[defaultNumPartitions] is not allowed to be set when the type is non-partition."
    if problem:
        message = f"Invalid configuration for autoTopicCreationOverride. the detail is {problem}"
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)


def _check_entry_filters(wanted: EntryFilters) -> None:
    if not (wanted.entryFilterNames or "").strip():
        message = "entryFilterNames can't be empty. To remove entry filters use the remove method."
        raise AdminError(HTTPStatus.BAD_REQUEST, message)
    name = (wanted.entryFilterNames or "").partition(",")[0]
    raise AdminError(HTTPStatus.BAD_REQUEST, f"Entry filter '{name}' not found")


def _check_offload(wanted: OffloadPolicies) -> None:
    if wanted.managedLedgerOffloadDriver not in _OFFLOAD_DRIVERS:
        message = f"The driver is not supported, support value: {','.join(_OFFLOAD_DRIVERS)}"
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)


def _check_custody(wanted: Custody) -> None:
    """Refuse with 412 a cluster that carries its own entries, and custodians without a name."""
    for origin, custodian in wanted.items():
        if not origin or not custodian or origin == custodian:
            message = f"Invalid custody: the entries of '{origin}' cannot be in the custody of '{custodian}'"
            raise AdminError(HTTPStatus.PRECONDITION_FAILED, message)


_CHECKS: Mapping[Policy, Callable[[Any], None]] = {
    Policy.RETENTION: _check_retention,
    Policy.PERSISTENCE: _check_persistence,
    Policy.OFFLOAD_POLICIES: _check_offload,
    Policy.AUTO_TOPIC_CREATION: _check_auto_topic_creation,
    Policy.ENTRY_FILTERS: _check_entry_filters,
    Policy.CUSTODY: _check_custody,
}
