"""The page of the admin REST API's paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.api import NOUNS
from magnetar.admin.exchange import Context
from reference.broker import administration
from reference.markdown import code, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from starlette.routing import Route

_ABOUT = """\
Paths, parameters, bodies and answers are those of Apache Pulsar if it has the path. Other paths are Magnetar's own. An
error is a status and `{"reason": "..."}`. The [OpenAPI document](openapi.json) describes the parameters, bodies and
answers of each path for tools. The [compatibility matrix](compatibility.md) lists all paths of Apache Pulsar, also
those that Magnetar refuses.
"""


def page() -> str:
    """Return a table of paths for each noun."""
    service, resources = administration()
    context = Context(service, resources)
    return "\n".join([_ABOUT, *(f"## {_title(noun)}\n\n{_paths(noun.routes(context))}" for noun in NOUNS)])


def _title(noun: ModuleType) -> str:
    return noun.__name__.rpartition(".")[2].replace("_", " ").capitalize()


def _paths(routes: Sequence[Route]) -> str:
    methods: dict[str, set[str]] = {}
    for route in routes:
        methods.setdefault(route.path, set()).update((route.methods or set()) - {"HEAD"})
    return table(("path", "methods"), [(code(path), ", ".join(sorted(methods[path]))) for path in sorted(methods)])
