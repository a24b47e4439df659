"""Backlog quotas of namespaces and topics: policies with a type."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, get_args

from pydantic import TypeAdapter, ValidationError

from magnetar.admin.exchange import AdminRoute, Context, body, flag, namespace_name, query_text, route
from magnetar.admin.handlers.policy_owners import PolicyOwners
from magnetar.base.errors import AdminError
from magnetar.metadata.policy.values import BacklogQuota, BacklogQuotaType, RetentionPolicies

if TYPE_CHECKING:
    from starlette.requests import Request

_MIB = 1 << 20

_QUOTA: TypeAdapter[BacklogQuota] = TypeAdapter(BacklogQuota)
_Quotas = dict[BacklogQuotaType, BacklogQuota]
_TYPE = ("backlogQuotaType",)


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for backlog quotas."""
    handlers = _Handlers(context)
    namespace = "/admin/v2/namespaces/{tenant}/{namespace}"
    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    return [
        route("GET", f"{namespace}/backlogQuotaMap", handlers.quotas, gives=_Quotas),
        route("POST", f"{namespace}/backlogQuota", handlers.set_quota, takes=_QUOTA, query=_TYPE),
        route("DELETE", f"{namespace}/backlogQuota", handlers.remove_quota, query=_TYPE),
        route("GET", f"{topic}/backlogQuotaMap", handlers.topic_quotas, query=["applied"], gives=_Quotas),
        route("POST", f"{topic}/backlogQuota", handlers.set_topic_quota, takes=_QUOTA, query=_TYPE),
        route("DELETE", f"{topic}/backlogQuota", handlers.remove_topic_quota, query=_TYPE),
    ]


class _Handlers:
    def __init__(self, context: Context) -> None:
        self._owners = PolicyOwners(context)

    def quotas(self, request: Request) -> dict[str, Any]:
        return _quotas(self._owners.namespace(request).backlog_quota_map)

    async def set_quota(self, request: Request) -> None:
        self._owners.namespace(request)
        kind, quota = await _quota(request, f"namespace[{namespace_name(request)}]")
        policies = self._owners.namespace(request)  # the others may have changed while the body arrived
        check_quota(kind, quota, policies.retention_policies, "namespace")
        await self._owners.set(request, kind, backlog_quota_map={**policies.backlog_quota_map, kind: quota})

    async def remove_quota(self, request: Request) -> None:
        left, kind = dict(self._owners.namespace(request).backlog_quota_map), _quota_type(request)
        left.pop(kind, None)
        await self._owners.set(request, kind, backlog_quota_map=left)

    def topic_quotas(self, request: Request) -> dict[str, Any]:
        topic = self._owners.topic(request)
        if flag(request, "applied"):
            return _quotas(self._owners.applied(topic).backlog_quotas)
        return _quotas(self._owners.own(topic).backLogQuotaMap)

    async def set_topic_quota(self, request: Request) -> None:
        topic = self._owners.to_change(request)
        kind, quota = await _quota(request, f"topic[{topic}]")
        check_quota(kind, quota, self._owners.applied(topic).retention, "topic")
        quotas = {**self._owners.own(topic).backLogQuotaMap, kind: quota}
        await self._owners.set_topic(topic, kind, backLogQuotaMap=quotas)

    async def remove_topic_quota(self, request: Request) -> None:
        topic = self._owners.to_change(request)
        left, kind = dict(self._owners.own(topic).backLogQuotaMap), _quota_type(request)
        left.pop(kind, None)
        await self._owners.set_topic(topic, kind, backLogQuotaMap=left)


def check_quota(kind: BacklogQuotaType, quota: BacklogQuota, retention: RetentionPolicies | None, owner: str) -> None:
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
    named = query_text(request, "backlogQuotaType") or "destination_storage"
    try:
        kind: BacklogQuotaType = TypeAdapter(BacklogQuotaType).validate_python(named)
    except ValidationError:
        known = " or ".join(get_args(BacklogQuotaType))
        raise AdminError(HTTPStatus.NOT_FOUND, f"backlogQuotaType={named}: expected {known}") from None
    return kind


def _quotas(found: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping by type
    return {kind: quota.to_json() for kind, quota in found.items()}
