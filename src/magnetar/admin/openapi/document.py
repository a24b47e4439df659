"""The OpenAPI document of a table of routes."""

from __future__ import annotations

import re
from http import HTTPStatus
from types import NoneType
from typing import TYPE_CHECKING, Any, Never, get_args

from magnetar.admin.openapi.description import JSON, QUERY, Raw
from magnetar.admin.openapi.schemas import Json, Schemas
from magnetar.admin.pulsar_api.routes import GROUPS, specificity
from magnetar.metadata.policy.document import Int, Long

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.admin.exchange import AdminRoute
    from magnetar.admin.openapi.description import Description

_ABOUT = """\
Paths, parameters, bodies and answers are those of Apache Pulsar if it has the path. Other paths are Magnetar's own.

In a path, a slash in a name is encoded.

A boolean parameter is true if its value is `true`; each other value is false.

A request with the header `Magnetar-Scope: local` changes this cluster only, although its metadata are synchronized."""

_NO_EFFECT = "The broker stores the value and returns it. Nothing else depends on it."

_REFUSALS = {
    HTTPStatus.BAD_REQUEST: "The body or a parameter is invalid.",
    HTTPStatus.FORBIDDEN: "The namespace or the tenant does not allow a cluster, or the cluster does not exist.",
    HTTPStatus.NOT_FOUND: "The path names something that does not exist.",
    HTTPStatus.METHOD_NOT_ALLOWED: "The operation does not apply to such a topic, or is switched off.",
    HTTPStatus.NOT_ACCEPTABLE: "A number or a name is not accepted.",
    HTTPStatus.CONFLICT: "It exists, is in use, or was changed at the same time.",
    HTTPStatus.PRECONDITION_FAILED: "A name or a value is not valid.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The value is understood, and refused.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The broker failed, for example because its disk did.",
    HTTPStatus.NOT_IMPLEMENTED: "Magnetar does not support this.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The broker cannot answer now, for example because a limit is reached.",
}
"""Meanings of the statuses of refusals, in their order in the document."""

_NAMES = frozenset({"bundle", "cluster", "namespace", "subscription", "tenant", "topic"})
"""Parameters of paths that name something which may be absent, or have an invalid name."""

_PARAMETER = re.compile(r"\{(?P<name>\w+)(?P<number>:int)?\}")


def document(routes: Iterable[AdminRoute], version: str) -> Json:
    """Return the document of ``routes``."""
    schemas, paths, parameters = Schemas(), dict[str, Json](), dict[str, Json]()
    for route in sorted(routes, key=lambda each: specificity(each.path)):
        path = _PARAMETER.sub(r"{\g<name>}", route.path)
        for method in sorted(route.methods - {"HEAD"}):
            paths.setdefault(path, {})[method.lower()] = _operation(route, method, schemas, parameters)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Magnetar", "description": _ABOUT, "version": version},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.named.items())),
            "parameters": dict(sorted(parameters.items())),
            "responses": {str(int(status)): _refusal(about) for status, about in _REFUSALS.items()},
        },
    }


def _operation(route: AdminRoute, method: str, schemas: Schemas, parameters: Json) -> Json:
    """Return the description of one method of a path; adds its parameters to ``parameters``."""
    about, operation = route.description, dict[str, Any]()
    group = next((each.title for each in GROUPS if f"{route.path}/".startswith(f"{each.root}/")), "Magnetar")
    operation["tags"] = [group]
    if route.is_without_effect:
        operation["description"] = _NO_EFFECT
    used = [_path_parameter(*found) for found in _PARAMETER.findall(route.path)]
    used += [{"name": name, "in": "query", "schema": schemas.of(QUERY[name])} for name in about.get("query", ())]
    if used:
        operation["parameters"] = [{"$ref": f"#/components/parameters/{_key(each)}"} for each in used]
        parameters |= {_key(each): each for each in used}
    if "takes" in about:
        operation["requestBody"] = _body(about["takes"], schemas)
    refusals = {str(int(status)): _shared(status) for status in _refusals(route, method)}
    operation["responses"] = _answers(about, schemas) | refusals
    return operation


def _path_parameter(name: str, number: str) -> Json:
    schema: Json = {"type": "integer", "minimum": 0} if number else {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _key(parameter: Json) -> str:
    """Return the name of a parameter among the components, where its place and its type are part of it."""
    suffix = ".number" if parameter["schema"].get("type") == "integer" else ""
    return f"{parameter['in']}.{parameter['name']}{suffix}"


def _body(kind: Any, schemas: Schemas) -> Json:  # noqa: ANN401 - a TypeAdapter or a Raw body
    if isinstance(kind, Raw):
        return {"description": kind.about, "content": {kind.media_type: {"schema": {"type": "string"}}}}
    return {"content": {JSON: {"schema": schemas.of(kind)}}}


def _answers(about: Description, schemas: Schemas) -> Json:
    """Return the answers that are no refusals, by status."""
    kind, status = about.get("gives"), str(int(about.get("status", HTTPStatus.OK)))
    nothing = {str(int(HTTPStatus.NO_CONTENT)): {"description": "Done, or not set."}}
    if kind is Never:
        return {}
    if kind is None:
        return nothing
    if isinstance(kind, Raw):
        shown: Json = {"description": kind.about}
        if kind.media_type:
            shown["content"] = {kind.media_type: {}}
        is_optional = kind.is_optional
    else:
        shown = {"description": "The value.", "content": {JSON: {"schema": schemas.of(kind)}}}
        is_optional = NoneType in get_args(kind)
    return {status: shown} | nothing if is_optional else {status: shown}


def _refusals(route: AdminRoute, method: str) -> list[HTTPStatus]:
    """Return the statuses of refusals: those that the route states, and those that follow from its path and body."""
    about = route.description
    found = set(map(HTTPStatus, about.get("refuses", ())))
    if about.get("gives") is Never and HTTPStatus.NOT_IMPLEMENTED in found:
        return sorted(found)
    names = {name for name, _ in _PARAMETER.findall(route.path)}
    if names:
        found.add(HTTPStatus.NOT_FOUND)
    if names & _NAMES:
        found.add(HTTPStatus.PRECONDITION_FAILED)
    if {QUERY[name] for name in about.get("query", ())} & {Int, Long}:
        found.add(HTTPStatus.BAD_REQUEST)
    if "takes" in about:
        found |= {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
    if method != "GET":
        found.add(HTTPStatus.CONFLICT)
    return sorted(found | {HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE})


def _shared(status: HTTPStatus) -> Json:
    return {"$ref": f"#/components/responses/{int(status)}"}


def _refusal(about: str) -> Json:
    schema: Json = {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]}
    return {"description": about, "content": {JSON: {"schema": schema}}}
