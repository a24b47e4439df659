"""The outcome of a command, and its comparison between two systems."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from magnetar.admin.pulsar_api.routes import GROUPS, specificity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.admin.pulsar_api.routes import PulsarRoute
    from tests.interop.pulsar_admin.recorder import Request
    from tests.interop.pulsar_admin.tool import Answer
    from tests.interop.pulsar_admin.usage import Command

NOUNS_OF_POLICIES = ("namespaces", "topicPolicies")
"""Nouns whose commands ``get-…`` print the same text in both systems."""

_ADDRESS = re.compile(r"127\.0\.0\.1:\d+")
_PARAMETER = re.compile(r"\{[^}]*\}")

_ROUTES = [
    (re.compile(_PARAMETER.sub("[^/]+", each.path)), each)
    for each in sorted((each for group in GROUPS for each in group.routes()), key=lambda each: specificity(each.path))
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer of the tool, and the requests that it sent."""

    answer: Answer
    requests: Sequence[Request]

    @property
    def deciding(self) -> Request | None:
        """Return the last refused request, otherwise the last one; None if there was none."""
        refused = [each for each in self.requests if each.status >= HTTPStatus.BAD_REQUEST]
        return next(reversed(refused or self.requests), None)

    @property
    def summary(self) -> str:
        """Return ``ok``, or the reason of the failure: a status, an unreadable answer, or the tool itself."""
        if self.answer.exit == 0:
            return "ok"
        if self.deciding is None:
            return "not sent"
        return str(self.deciding.status) if self.deciding.status >= HTTPStatus.BAD_REQUEST else "unreadable"

    @property
    def route(self) -> PulsarRoute | None:
        """Return the route of the deciding request; None if there was no request."""
        return route_of(self.deciding) if self.deciding is not None else None


def route_of(request: Request) -> PulsarRoute:
    """Return the route of a request; raises LookupError if Pulsar has none like it."""
    for path, route in _ROUTES:
        if route.method == request.method and path.fullmatch(request.path):
            return route
    message = f"no route for {request.method} {request.path}"
    raise LookupError(message)


def difference(command: Command, ours: Outcome, theirs: Outcome) -> str:
    """Return the difference between two outcomes; empty if there is none."""
    if ours.summary != theirs.summary:
        return f"{_described(ours)}; in Apache Pulsar {_described(theirs)}"
    if ours.summary != "ok":
        return ""
    found, expected = (_ADDRESS.sub("ADDRESS", each.answer.output) for each in (ours, theirs))
    if command.noun in NOUNS_OF_POLICIES and command.verb.startswith("get-"):
        return "" if found == expected else f"prints {found!r}; Apache Pulsar {expected!r}"
    lacking = sorted({*_members(_parsed(expected))} - {*_members(_parsed(found))})
    return f"lacks {', '.join(lacking)}" if lacking else ""


def _described(outcome: Outcome) -> str:
    reason = outcome.deciding.reason if outcome.deciding is not None else outcome.answer.errors
    return f"{outcome.summary} {reason[:200]}".strip()


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except ValueError:
        return None


def _members(value: object, path: str = "") -> Iterator[str]:
    """Yield the paths of all members of a JSON value, with their types; names of objects are not compared."""
    match value:
        case dict():
            for name, each in value.items():
                yield from _members(each, f"{path}.{'*' if '/' in name or '0x' in name else name}")
        case list():
            for each in value:
                yield from _members(each, f"{path}[]")
        case bool() | str():
            yield f"{path}: {type(value).__name__}"
        case int() | float():
            yield f"{path}: number"
