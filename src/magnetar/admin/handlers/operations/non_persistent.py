"""``/admin/v2/non-persistent``: topics whose messages are not stored, and Pulsar's refusals for them."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Never

from magnetar.admin.exchange import AdminRoute, Context, path_text, route
from magnetar.admin.handlers.topics import domain_routes
from magnetar.base.errors import AdminError
from magnetar.base.names import NON_PERSISTENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from magnetar.base.names import TopicName

_PERSISTENT_ONLY = "Need to provide a persistent topic name"

_REFUSED = (
    ("POST", "all_subscription/expireMessages/{seconds:int}", 405, "Expire messages for all subscriptions"),
    ("GET", "examinemessage", 405, "Examine messages"),
    ("GET", "lastMessageId", 405, "GetLastMessageId"),
    ("GET", "messageid/{timestamp:int}", 405, "Get message ID by timestamp"),
    ("POST", "trim", 405, "Trim"),
    ("POST", "subscription/{subscription}/expireMessages/{seconds:int}", 405, "Expire messages"),
    ("GET", "subscription/{subscription}/position/{message:int}", 405, "Peek messages"),
)
"""Method, path, status and operation of routes that Pulsar refuses for non-persistent topics."""

_REFUSED_OTHERWISE = (
    ("GET PUT DELETE", "properties", 406, _PERSISTENT_ONLY),
    ("POST", "terminate", 406, _PERSISTENT_ONLY),
    ("DELETE", "truncate", 412, "unsupport truncate"),
    ("PUT", "shadowTopics", 412, "Only persistent source topic is supported with shadow topics."),
    (
        "PUT",
        "subscription/{subscription}",
        400,
        "Create subscription on non-persistent topic can only be done through client",
    ),
    (
        "GET POST",
        "subscription/{subscription}/replicatedSubscriptionStatus",
        405,
        "Cannot get replicated subscriptions on non-persistent topics",
    ),
)
"""Methods, path, status and reason of the others."""


def routes(context: Context) -> list[AdminRoute]:
    """Handlers for non-persistent topics."""
    here = replace(context, domain=NON_PERSISTENT)
    handlers = _Subscriptions(here)
    one = "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}"
    found = [
        *domain_routes(here),
        route("GET", f"{one}/subscriptions", handlers.names, gives=list[str]),
        route("DELETE", f"{one}/subscription/{{subscription}}", handlers.delete),
    ]
    refused = [
        *(
            (methods, path, status, f"{what} on a non-persistent topic is not allowed")
            for methods, path, status, what in _REFUSED
        ),
        *_REFUSED_OTHERWISE,
    ]
    for methods, path, status, reason in refused:
        found += [
            route(method, f"{one}/{path}", _refusing(here, status, reason), gives=Never, refuses=[status])
            for method in methods.split()
        ]
    return found


def _refusing(context: Context, status: int, reason: str) -> Callable[[Request], None]:
    def refuse(request: Request) -> None:
        context.topic(request)
        raise AdminError(HTTPStatus(status), reason)

    return refuse


class _Subscriptions:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._operations = context.service.non_persistent

    async def names(self, request: Request) -> list[str]:
        found: dict[str, None] = {}
        async for part in self._parts(request):
            found |= dict.fromkeys(self._operations.subscriptions(part))
        return list(found)

    async def delete(self, request: Request) -> None:
        async for part in self._parts(request):
            self._operations.delete_subscription(part, path_text(request, "subscription"))

    def _parts(self, request: Request) -> AsyncIterator[TopicName]:
        return self._context.in_turn(self._context.parts(self._context.existing(request)))
