"""Routes of Apache Pulsar that no handler serves: they are refused with their name, never silently accepted.

A GET of an unsupported policy returns Pulsar's answer for an unset policy; setting it is refused with 501.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Never

from magnetar.admin.exchange import AdminRoute, Context, route
from magnetar.admin.pulsar_api.routes import GROUPS, by_key
from magnetar.base.errors import AdminError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from magnetar.admin.openapi.description import Description

_TOPIC_POLICIES = ("shadowTopics",)


def routes(context: Context, served: Sequence[AdminRoute]) -> list[AdminRoute]:
    """Return routes for everything in Pulsar's API that ``served`` lacks."""

    def unset_of_topic(request: Request) -> None:
        context.topic(request)

    topic = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
    reads = [route("GET", f"{topic}/{policy}", unset_of_topic) for policy in _TOPIC_POLICIES]
    answered = by_key([*served, *reads])
    missing = (each for group in GROUPS for each in group.routes() if each.key not in answered)
    refused: Description = {"gives": Never, "refuses": [501]}
    return [*reads, *(route(each.method, each.path, _not_implemented(each.refusal), **refused) for each in missing)]


def _not_implemented(reason: str) -> Callable[[Request], None]:
    def refuse(_: Request) -> None:
        raise AdminError(HTTPStatus.NOT_IMPLEMENTED, reason)

    return refuse
