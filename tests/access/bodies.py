"""Commands and requests of the matrix, made from the tables: a new command or route needs no further line here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from magnetar.admin.api import all_routes
from magnetar.admin.exchange import Context
from magnetar.authorization.commands import COMMANDS
from magnetar.authorization.needs import TENANT_ADMIN, Need, Resource, Scope
from magnetar.authorization.routes import need_of
from magnetar.base.names import NamespaceName, TopicName
from magnetar.wire.proto import pulsar_api_pb2 as pb
from reference.broker import administration
from tests.access.roles import CLUSTER, NAMESPACE, TENANT, TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

REQUEST_ID: Final = 7

_VALUES: Final = {
    "topic": TOPIC,
    "namespace": NAMESPACE,
    "subscription": "s",
    "initial_subscription_name": "s",
    "target": CLUSTER,
    "request_id": REQUEST_ID,
    "consumer_id": 99,
    "producer_id": 99,
    "lease": 1,
    "pipeline": "p",
    "topics_pattern": ".*",
}
"""Values of fields by name; others have the smallest value of their type."""

INTERNAL_NAMES: Final = (f"pulsar.repl.{CLUSTER}", "pulsar.repl.lga", "magnetar.progress.jfk", "magnetar.x")
"""Names of producers and subscriptions of Magnetar's own parts: of CLUSTER, of another one, and of none."""


def commands() -> Iterator[pb.BaseCommand]:
    """Yield each command of the protocol, and the commands of the table also with each field that a row names."""
    for kind in pb.BaseCommand.Type.values():
        field = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].name
        first = _filled(kind)
        yield first
        for row in COMMANDS.get(kind, ()):
            if row.only_with:
                further = _filled(kind)
                setattr(getattr(further, field), row.only_with, "s")
                yield further
            for name in INTERNAL_NAMES if row.internal else ():
                further = _filled(kind)
                setattr(getattr(further, field), row.internal, name)
                yield further


def has_internal_name(command: pb.BaseCommand) -> bool:
    """Return whether a command names a producer or a subscription of Magnetar's own parts."""
    rows = COMMANDS.get(command.type, ())
    return any(row.internal and getattr(body_of(command), row.internal) in INTERNAL_NAMES for row in rows)


def body_of(command: pb.BaseCommand) -> Any:  # noqa: ANN401 - the body of any command
    """Return the body of a command."""
    return getattr(command, pb.BaseCommand.DESCRIPTOR.fields_by_number[command.type].name)


def _filled(kind: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    body = body_of(command)
    _fill(body)
    for row in COMMANDS.get(kind, ()):
        for name in filter(None, (row.topic, row.namespace, row.cluster)):
            setattr(body, name, _VALUES[name])
    body.SetInParent()
    return command


def _fill(message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        if field.is_required:
            if field.message_type is not None:
                _fill(getattr(message, field.name))
            else:
                setattr(message, field.name, _value(field))


def _value(field: Any) -> object:  # noqa: ANN401 - a FieldDescriptor of any implementation of protobuf
    if field.name in _VALUES:
        return _VALUES[field.name]
    if field.enum_type is not None:
        return field.enum_type.values[0].number
    if field.type == field.TYPE_STRING:
        return "x"
    return b"" if field.type == field.TYPE_BYTES else 0


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the REST API."""

    method: str
    route: str
    url: str
    content: bytes
    """A body. It is not valid JSON where a handler must not go beyond the check of the role."""
    need: Need
    resource: Resource


_PARTS: Final = {
    "tenant": TENANT,
    "namespace": "web",
    "topic": "orders",
    "subscription": "s",
    "cluster": "lga",
    "bundle": "0x00000000_0xffffffff",
    "role": "nobody",
}
"""Values of parameters of paths; those of others are 1. There is no cluster lga."""

_OF_HANDLERS: Final = {
    "/admin/v2/namespaces/grantPermissionsOnTopics": [{"topic": TOPIC, "role": "nobody", "actions": []}],
    "/admin/v2/namespaces/revokePermissionsOnTopics": [{"topic": TOPIC, "role": "nobody"}],
}
"""Bodies of requests whose handler checks each resource in it; each requires an admin of the tenant."""


def requests() -> list[Request]:
    """Return the requests of all routes, those of Apache Pulsar that Magnetar lacks included."""
    routes = all_routes(Context(*administration()))
    pairs = {(method, route.path) for route in routes for method in route.methods - {"HEAD"}}
    return [_request(method, path) for method, path in sorted(pairs)]


def _request(method: str, path: str) -> Request:
    url = re.sub(r"{(\w+)(:int)?}", lambda found: _PARTS.get(found[1], "1"), path)
    need, content = need_of(method, path), b"[" if method in ("PUT", "POST") else b""
    if need.scope is Scope.HANDLER:
        need, content = TENANT_ADMIN, json.dumps(_OF_HANDLERS[path]).encode()
    return Request(method, path, url, content, need, _resource(path))


def _resource(path: str) -> Resource:
    if "{topic}" in path or path in _OF_HANDLERS:
        domain = "non-persistent" if "/non-persistent/" in path else "persistent"
        return Resource.of_topic(TopicName(domain, "shop", "web", "orders"), "s" if "{subscription}" in path else "")
    if "{tenant}" in path and "{namespace}" in path:
        return Resource.of_namespace(NamespaceName("shop", "web"))
    return Resource(TENANT if "{tenant}" in path else "")
