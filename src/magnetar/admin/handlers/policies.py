"""Policies of namespaces and topics: one table, with the same verbs for all policies at both levels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, get_args

from pydantic import TypeAdapter, ValidationError

from magnetar.admin.exchange import AdminRoute, Context, body, flag, namespace_name, route
from magnetar.admin.nouns import Policy
from magnetar.admin.service import topic_not_found
from magnetar.base.errors import AdminError
from magnetar.metadata.effective import LEVEL_FIELDS
from magnetar.metadata.policies import (
    BacklogQuota,
    BacklogQuotaType,
    Copies,
    DelayedDeliveryPolicies,
    Limit,
    Milliseconds,
    Policies,
    ReplicatedSubscriptionSync,
    RetentionPolicies,
    TopicPolicies,
)
from magnetar.schema.strategy import SchemaCompatibilityStrategy

if TYPE_CHECKING:
    from starlette.requests import Request

    from magnetar.base.names import TopicName
    from magnetar.metadata.effective import EffectivePolicies

Read = Callable[["Request"], Awaitable[Any]]
"""Reads the new value of a policy from a request."""

Method = Callable[["Request"], Any]

_MIB = 1 << 20

_RETENTION_CONFLICT = (
    "Invalid retention policy: Setting a single time or size limit to 0 is invalid when one of the limits has a "
    "non-zero value. Use the value of -1 instead of 0 to ignore a specific limit. To disable retention both limits "
    "must be set to 0."
)
_FLAG: TypeAdapter[bool] = TypeAdapter(bool)
_LIMIT: TypeAdapter[int | None] = TypeAdapter(Limit | None)
_COPIES: TypeAdapter[int | None] = TypeAdapter(Copies | None)
_MILLISECONDS: TypeAdapter[int | None] = TypeAdapter(Milliseconds | None)
_OPTIONAL_FLAG: TypeAdapter[bool | None] = TypeAdapter(bool | None)
_NUMBER: TypeAdapter[int] = TypeAdapter(int)
_OPTIONAL_NUMBER: TypeAdapter[int | None] = TypeAdapter(int | None)
_RETENTION: TypeAdapter[RetentionPolicies] = TypeAdapter(RetentionPolicies)
_DELAYED_DELIVERY: TypeAdapter[DelayedDeliveryPolicies] = TypeAdapter(DelayedDeliveryPolicies)
_QUOTA: TypeAdapter[BacklogQuota] = TypeAdapter(BacklogQuota)
_TEXT: TypeAdapter[str] = TypeAdapter(str)
_STRATEGY: TypeAdapter[SchemaCompatibilityStrategy] = TypeAdapter(SchemaCompatibilityStrategy)
_SYNC: TypeAdapter[ReplicatedSubscriptionSync] = TypeAdapter(ReplicatedSubscriptionSync)


async def _flag_in_body(request: Request) -> bool:
    return await body(request, _FLAG)


async def _snapshot_interval(request: Request) -> int | None:
    return _checked_interval(await body(request, _OPTIONAL_NUMBER))


def _checked_interval(seconds: int | None) -> int | None:
    if seconds is not None and seconds < 0:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, "interval must be greater than or equal to 0")
    return seconds


async def _message_ttl(request: Request) -> int:
    return _checked_ttl(await body(request, _NUMBER))


async def _message_ttl_of_topic(request: Request) -> int | None:
    value = request.query_params.get("messageTTL")
    if value is None:
        return None
    try:
        return _checked_ttl(int(value))
    except ValueError:
        raise AdminError(HTTPStatus.BAD_REQUEST, f"messageTTL={value!r} is not a number of seconds") from None


def _checked_ttl(seconds: int) -> int:
    if seconds < 0:
        raise AdminError(HTTPStatus.PRECONDITION_FAILED, "Invalid value for message TTL, message TTL must >= 0")
    return seconds


async def _retention(request: Request) -> RetentionPolicies:
    retention = await body(request, _RETENTION)
    _check_retention(retention)
    return retention


async def _delayed_delivery(request: Request) -> DelayedDeliveryPolicies:
    return await body(request, _DELAYED_DELIVERY)


async def _optional_flag(request: Request) -> bool | None:
    return await body(request, _OPTIONAL_FLAG)


async def _limit(request: Request) -> int | None:
    return await body(request, _LIMIT)


async def _copies(request: Request) -> int | None:
    return await body(request, _COPIES)


async def _milliseconds(request: Request) -> int | None:
    return await body(request, _MILLISECONDS)


async def _pause(_: Request) -> bool:
    return True  # the request has no body: POST enables the policy, DELETE disables it


async def _replicated_subscription_sync(request: Request) -> ReplicatedSubscriptionSync:
    return await body(request, _SYNC)


async def _strategy(request: Request) -> SchemaCompatibilityStrategy:
    return await body(request, _STRATEGY)


async def _cluster(request: Request) -> str:
    return await body(request, _TEXT)


@dataclass(frozen=True, slots=True)
class _Policy:
    """One policy: its field in EffectivePolicies, and the function that reads it."""

    policy: Policy
    effective: str
    read: Read
    read_of_topic: Read | None = None
    """Reader of the topic's policy; None: the same as for a namespace."""
    unset: bool | None = None
    """Answer of GET if the policy is not set."""

    @property
    def field(self) -> str:
        """Field of Policies."""
        return LEVEL_FIELDS[self.effective][0]

    @property
    def topic_field(self) -> str:
        """Field of TopicPolicies."""
        return LEVEL_FIELDS[self.effective][1]


POLICIES = (
    _Policy(Policy.DEDUPLICATION, "deduplication_enabled", _flag_in_body),
    _Policy(Policy.DEDUPLICATION_SNAPSHOT_INTERVAL, "deduplication_snapshot_interval_s", _snapshot_interval),
    _Policy(Policy.MESSAGE_TTL, "message_ttl_s", _message_ttl, read_of_topic=_message_ttl_of_topic),
    _Policy(Policy.RETENTION, "retention", _retention),
    _Policy(Policy.DELAYED_DELIVERY, "delayed_delivery", _delayed_delivery),
    _Policy(Policy.PAUSE_ON_ACK_STATE, "pause_on_ack_state", _pause, unset=False),
    _Policy(Policy.REPLICATE_SUBSCRIPTION_STATE, "replicate_subscription_state", _optional_flag),
    _Policy(Policy.REPLICATED_SUBSCRIPTIONS_ALLOWED, "replicated_subscriptions_allowed", _optional_flag),
    _Policy(Policy.MAX_AT_RISK_MESSAGES, "max_at_risk_messages", _limit),
    _Policy(Policy.MAX_AT_RISK_SECONDS, "max_at_risk_seconds", _limit),
    _Policy(Policy.AT_RISK_COPIES, "at_risk_copies", _copies),
    _Policy(Policy.AT_RISK_ABSENCE_SECONDS, "at_risk_absence_s", _limit),
    _Policy(Policy.REPLICATED_SUBSCRIPTION_SYNC, "replicated_subscription_sync", _replicated_subscription_sync),
    _Policy(
        Policy.REPLICATED_SUBSCRIPTIONS_SNAPSHOT_FREQUENCY,
        "replicated_subscriptions_snapshot_frequency_ms",
        _milliseconds,
    ),
    _Policy(Policy.REPLICATED_SUBSCRIPTION_ACTIVE_CLUSTER, "replicated_subscription_active_cluster", _cluster),
    _Policy(Policy.SCHEMA_COMPATIBILITY_STRATEGY, "schema_compatibility_strategy", _strategy),
    _Policy(Policy.SCHEMA_VALIDATION_ENFORCED, "schema_validation_enforced", _flag_in_body),
)
"""All policies except backlog quotas, and those of namespaces only, which have their own verbs."""

ACTED_ON = frozenset({"backlog_quota_map", "is_allow_auto_update_schema", *(policy.field for policy in POLICIES)})
"""Fields of Policies that this module handles."""


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for policies."""
    handlers = _Handlers(context)
    namespace = "/admin/v2/namespaces/{tenant}/{namespace}"
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    found = [
        route("GET", f"{namespace}/backlogQuotaMap", handlers.quotas),
        route("POST", f"{namespace}/backlogQuota", handlers.set_quota),
        route("DELETE", f"{namespace}/backlogQuota", handlers.remove_quota),
        route("GET", f"{namespace}/isAllowAutoUpdateSchema", handlers.auto_updates_schemas),
        route("POST", f"{namespace}/isAllowAutoUpdateSchema", handlers.set_auto_update_of_schemas),
        route("GET", f"{topic}/backlogQuotaMap", handlers.topic_quotas),
        route("POST", f"{topic}/backlogQuota", handlers.set_topic_quota),
        route("DELETE", f"{topic}/backlogQuota", handlers.remove_topic_quota),
    ]
    for policy in POLICIES:
        for owner, methods in (
            (f"{namespace}/{policy.policy.path}", handlers.of_namespace(policy)),
            (f"{topic}/{policy.policy.topic_path}", handlers.of_topic(policy)),
        ):
            found += [route(method, owner, handler) for method, handler in methods.items()]
    return found


class _Handlers:
    def __init__(self, context: Context) -> None:
        self._context = context

    # -- one value ----------------------------------------------------------------------------------------------

    def of_namespace(self, policy: _Policy) -> dict[str, Method]:
        def get(request: Request) -> object:
            return _json(getattr(self._namespace(request), policy.field), policy.unset)

        async def write(request: Request) -> None:
            self._namespace(request)
            await self._set(request, **{policy.field: await policy.read(request)})

        async def delete(request: Request) -> None:
            self._namespace(request)
            await self._set(request, **{policy.field: None})

        return {"GET": get, policy.policy.method: write, "DELETE": delete}

    def of_topic(self, policy: _Policy) -> dict[str, Method]:
        read = policy.read_of_topic or policy.read

        def get(request: Request) -> object:
            topic = self._topic(request)
            if flag(request, "applied"):
                return _json(getattr(self._applied(topic), policy.effective), policy.unset)
            return _json(getattr(self._own(topic), policy.topic_field), policy.unset)

        async def write(request: Request) -> None:
            topic = self._topic(request)
            await self._set_topic(topic, **{policy.topic_field: await read(request)})

        async def delete(request: Request) -> None:
            await self._set_topic(self._topic(request), **{policy.topic_field: None})

        return {"GET": get, policy.policy.method: write, "DELETE": delete}

    # -- backlog quotas -----------------------------------------------------------------------------------------

    def auto_updates_schemas(self, request: Request) -> bool:
        return self._namespace(request).is_allow_auto_update_schema

    async def set_auto_update_of_schemas(self, request: Request) -> None:
        self._namespace(request)
        allowed = await body(request, _FLAG)
        await self._set(request, is_allow_auto_update_schema=allowed)

    def quotas(self, request: Request) -> dict[str, Any]:
        return _quotas(self._namespace(request).backlog_quota_map)

    async def set_quota(self, request: Request) -> None:
        policies = self._namespace(request)
        kind, quota = await _quota(request, f"namespace[{namespace_name(request)}]")
        _check_quota(kind, quota, policies.retention_policies, "namespace")
        await self._set(request, backlog_quota_map={**policies.backlog_quota_map, kind: quota})

    async def remove_quota(self, request: Request) -> None:
        left = dict(self._namespace(request).backlog_quota_map)
        left.pop(_quota_type(request), None)
        await self._set(request, backlog_quota_map=left)

    def topic_quotas(self, request: Request) -> dict[str, Any]:
        topic = self._topic(request)
        if flag(request, "applied"):
            return _quotas(self._applied(topic).backlog_quotas)
        return _quotas(self._own(topic).backLogQuotaMap)

    async def set_topic_quota(self, request: Request) -> None:
        topic = self._topic(request)
        kind, quota = await _quota(request, f"topic[{topic}]")
        _check_quota(kind, quota, self._applied(topic).retention, "topic")
        await self._set_topic(topic, backLogQuotaMap={**self._own(topic).backLogQuotaMap, kind: quota})

    async def remove_topic_quota(self, request: Request) -> None:
        topic = self._topic(request)
        left = dict(self._own(topic).backLogQuotaMap)
        left.pop(_quota_type(request), None)
        await self._set_topic(topic, backLogQuotaMap=left)

    # -- storage ------------------------------------------------------------------------------------------------

    def _namespace(self, request: Request) -> Policies:
        return self._context.policies(namespace_name(request))

    def _topic(self, request: Request) -> TopicName:
        topic = self._context.topic(request)
        if self._context.service.topics.partitions_of(topic) is None:
            raise topic_not_found(topic)
        return topic

    def _own(self, topic: TopicName) -> TopicPolicies:
        return self._context.resources.topic_policies.get(topic) or TopicPolicies()

    def _applied(self, topic: TopicName) -> EffectivePolicies:
        return self._context.service.topics.applied_policies(topic)

    async def _set(self, request: Request, **fields: object) -> None:
        namespaces = self._context.resources.namespaces
        await namespaces.update(namespace_name(request), lambda policies: policies.model_copy(update=fields))

    async def _set_topic(self, topic: TopicName, **fields: object) -> None:
        await self._context.resources.topic_policies.change(topic, **fields)


def check(policies: Policies) -> None:
    """Check policies that are set together, as if they were set individually."""
    if policies.retention_policies is not None:
        _check_retention(policies.retention_policies)
    _checked_ttl(policies.message_ttl_in_seconds or 0)
    _checked_interval(policies.deduplicationSnapshotIntervalSeconds)
    for kind, quota in policies.backlog_quota_map.items():
        _check_quota(kind, quota, policies.retention_policies, "namespace")


def _check_retention(retention: RetentionPolicies) -> None:
    """Refuse a retention with inconsistent limits with 400."""
    time, size = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    if time < -1:
        raise AdminError(HTTPStatus.BAD_REQUEST, "Invalid retention policy: time limit must be >= -1")
    if size < -1:
        raise AdminError(HTTPStatus.BAD_REQUEST, "Invalid retention policy: size limit must be >= -1")
    if (time == 0) != (size == 0):
        raise AdminError(HTTPStatus.BAD_REQUEST, _RETENTION_CONFLICT)


def _check_quota(kind: BacklogQuotaType, quota: BacklogQuota, retention: RetentionPolicies | None, owner: str) -> None:
    """Refuse a backlog quota that exceeds the retention with 412."""
    if retention is None or (retention.retentionTimeInMinutes == 0 and retention.retentionSizeInMB == 0):
        return
    if kind == "destination_storage":
        exceeds = retention.retentionSizeInMB >= 0 and quota.limitSize >= retention.retentionSizeInMB * _MIB
    else:
        exceeds = retention.retentionTimeInMinutes >= 0 and quota.limitTime >= retention.retentionTimeInMinutes * 60
    if exceeds:
        raise AdminError(
            HTTPStatus.PRECONDITION_FAILED,
            f"Backlog Quota exceeds configured retention quota for {owner}. Please increase retention quota and retry",
        )


async def _quota(request: Request, owner: str) -> tuple[BacklogQuotaType, BacklogQuota]:
    kind = _quota_type(request)
    try:
        return kind, await body(request, _QUOTA)
    except AdminError as error:
        if not str(error).startswith("policy"):
            raise
        message = (
            f"Set {owner} backlog quota failed because the data validation failed. the attribute policy cannot be null"
        )
        raise AdminError(error.status, message) from None


def _quota_type(request: Request) -> BacklogQuotaType:
    named = request.query_params.get("backlogQuotaType", "destination_storage")
    try:
        kind: BacklogQuotaType = TypeAdapter(BacklogQuotaType).validate_python(named)
    except ValidationError:
        known = " or ".join(get_args(BacklogQuotaType))
        raise AdminError(HTTPStatus.NOT_FOUND, f"backlogQuotaType={named}: expected {known}") from None
    return kind


def _quotas(found: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping by type
    return {kind: quota.to_json() for kind, quota in found.items()}


def _json(value: Any, unset: bool | None) -> object:  # noqa: ANN401, FBT001 - any JSON value; as it is answered
    if value is None:
        return unset
    return value.to_json() if hasattr(value, "to_json") else value
