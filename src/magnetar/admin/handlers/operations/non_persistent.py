"""``/admin/v2/non-persistent``: there are no non-persistent topics, so lists of them are empty."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Never

from magnetar.admin.exchange import AdminRoute, Context, namespace_name, route, topic_name
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from starlette.requests import Request

_READ = ("stats", "internalStats", "subscriptions")


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for non-persistent topics."""

    def nothing(request: Request) -> list[str]:
        context.policies(namespace_name(request))
        return []

    def missing(request: Request) -> None:
        topic = topic_name(request)
        context.check_lives_here(topic.namespace_name)
        message = f"Topic non-persistent://{topic.namespace_name}/{topic.local_name} not found"
        raise AdminError(HTTPStatus.NOT_FOUND, message)

    root = "/admin/v2/non-persistent/{tenant}/{namespace}"
    return [
        route("GET", root, nothing, gives=list[str]),
        route("GET", f"{root}/partitioned", nothing, gives=list[str]),
        *(route("GET", f"{root}/{{topic}}/{what}", missing, gives=Never) for what in _READ),
    ]
