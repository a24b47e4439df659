"""The tables of requirements, compared with the handlers of commands and requests."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.admin.api import served_routes
from magnetar.admin.exchange import Context
from magnetar.authorization.commands import COMMANDS, demands
from magnetar.authorization.decisions import Rules, State, refusal
from magnetar.authorization.needs import SUPERUSER, Need, Resource, Scope, on_topic
from magnetar.authorization.routes import ROUTES, need_of
from magnetar.base.errors import InvalidTopicNameError
from magnetar.base.names import TopicName
from magnetar.broker.session.receiving import _HANDLERS
from magnetar.metadata.policies import Policies, TenantInfo
from magnetar.security.principal import Principal
from magnetar.wire.proto import pulsar_api_pb2 as pb
from reference.broker import administration

TOPIC = "persistent://shop/web/orders"


def served() -> set[tuple[str, str]]:
    service, resources = administration()
    routes = served_routes(Context(service, resources))
    return {(method, route.path) for route in routes for method in route.methods - {"HEAD"}}


def test_each_request_has_a_row() -> None:
    assert served() - ROUTES.keys() == set()
    assert len({path for _, path in served()}) > 100


def test_a_request_without_a_row_requires_a_superuser() -> None:
    assert need_of("GET", "/admin/v2/new/{thing}") == SUPERUSER
    assert need_of("HEAD", "/admin/v2/clusters") == need_of("GET", "/admin/v2/clusters")


def test_each_command_has_a_row() -> None:
    assert {*_HANDLERS, pb.BaseCommand.SEND} <= COMMANDS.keys()


def test_commands_that_change_or_read_something_are_checked() -> None:
    unchecked = {kind for kind, rows in COMMANDS.items() if rows[0].need.scope is Scope.ANYONE}
    assert unchecked == {pb.BaseCommand.CONNECT, pb.BaseCommand.AUTH_RESPONSE}
    for kind, rows in COMMANDS.items():
        fields = {field.name for field in _body(kind).DESCRIPTOR.fields}
        if rows[0].need.scope is Scope.OWN:
            assert fields & {"consumer_id", "producer_id"}, "it names what the connection has opened"
            assert "topic" not in fields
        for row in rows:
            named = {row.topic, row.namespace, row.subscription, row.cluster, row.internal, row.only_with} - {""}
            assert named <= fields


def _body(kind: int) -> Any:  # noqa: ANN401 - the body of any command
    field = next(each for each in pb.BaseCommand.DESCRIPTOR.fields if each.number == kind)
    return getattr(pb.BaseCommand(), field.name)


def _demanded(kind: int, body: object) -> list[tuple[Need, Resource]]:
    return [(each.need, each.resource) for each in demands(kind, body)]


def test_a_producer_with_a_subscription_needs_both() -> None:
    body = pb.CommandProducer(topic=TOPIC, initial_subscription_name="s")
    (produce, _), (subscribe, resource) = _demanded(pb.BaseCommand.PRODUCER, body)
    assert (produce.operation, subscribe.operation, resource.subscription) == ("PRODUCE", "SUBSCRIBE", "s")


@pytest.mark.parametrize(
    ("kind", "body", "cluster"),
    [
        (pb.BaseCommand.PRODUCER, pb.CommandProducer(topic=TOPIC, producer_name="pulsar.repl.ewr-->jfk"), "ewr"),
        (pb.BaseCommand.PRODUCER, pb.CommandProducer(topic=TOPIC, producer_name="magnetar.progress.ewr"), "ewr"),
        (pb.BaseCommand.SUBSCRIBE, pb.CommandSubscribe(topic=TOPIC, subscription="pulsar.repl.jfk"), "jfk"),
        (pb.BaseCommand.SUBSCRIBE, pb.CommandSubscribe(topic=TOPIC, subscription="magnetar.other"), ""),
        (pb.BaseCommand.SUBSCRIBE, pb.CommandSubscribe(topic=TOPIC, subscription="pulsar.dedup"), ""),
        (
            pb.BaseCommand.GET_OR_CREATE_SCHEMA,
            pb.CommandGetOrCreateSchema(topic=TOPIC, producerName="pulsar.repl.ewr-->jfk"),
            "ewr",
        ),
        (pb.BaseCommand.WATCH_LINKS, pb.CommandWatchLinks(target="jfk"), "jfk"),
        (pb.BaseCommand.CARRY_LINKS, pb.CommandCarryLinks(target="jfk"), "jfk"),
        (pb.BaseCommand.WATCH_LOSSES, pb.CommandWatchLosses(), None),
    ],
)
def test_parts_of_magnetar_need_a_replicator_of_the_cluster_that_they_name(
    kind: int, body: object, cluster: str | None
) -> None:
    ((need, resource),) = _demanded(kind, body)
    assert (need.scope, resource.cluster) == (Scope.REPLICATOR, cluster)


def test_an_invalid_name_is_refused_as_such() -> None:
    with pytest.raises(InvalidTopicNameError):
        list(demands(pb.BaseCommand.LOOKUP, pb.CommandLookupTopic(topic="a://b")))


LINK = "pulsar.repl.ewr-->jfk"
OF_PIPELINE = [
    (pb.BaseCommand.LOOKUP, pb.CommandLookupTopic(topic=TOPIC)),
    (pb.BaseCommand.GET_TOPICS_OF_NAMESPACE, pb.CommandGetTopicsOfNamespace(namespace="shop/web")),
    (pb.BaseCommand.GET_SCHEMA, pb.CommandGetSchema(topic=TOPIC)),
    (pb.BaseCommand.GET_OR_CREATE_SCHEMA, pb.CommandGetOrCreateSchema(topic=TOPIC, producerName=LINK)),
    (pb.BaseCommand.SUBSCRIBE, pb.CommandSubscribe(topic=TOPIC, subscription="pulsar.repl.jfk")),
    (pb.BaseCommand.PRODUCER, pb.CommandProducer(topic=TOPIC, producer_name=LINK)),
    (pb.BaseCommand.WATCH_LINKS, pb.CommandWatchLinks(target="jfk")),
    (pb.BaseCommand.CARRY_LINKS, pb.CommandCarryLinks(target="jfk")),
    (pb.BaseCommand.WATCH_LOSSES, pb.CommandWatchLosses()),
]
REQUESTS_OF_PIPELINE = [
    "/admin/v2/clusters/{cluster}",
    "/admin/v2/brokers/version",
    "/admin/v2/tenants",
    "/admin/v2/namespaces/{tenant}",
    "/admin/v2/namespaces/{tenant}/{namespace}/replication",
    "/admin/v2/persistent/{tenant}/{namespace}",
    "/admin/v2/persistent/{tenant}/{namespace}/{topic}/stats",
    "/admin/v2/broker-stats/replication",
]


@pytest.mark.parametrize(("role", "is_permitted"), [("pipeline", True), ("stranger", False)])
def test_the_pipeline_needs_no_other_role_than_that_of_a_replicator(role: str, *, is_permitted: bool) -> None:
    rules = Rules(replicators={"pipeline": frozenset({"*"})})
    state, principal = State(TenantInfo(), Policies()), Principal(role, "token")
    asked = [(each.need, each.resource) for kind, body in OF_PIPELINE for each in demands(kind, body)]
    topic = Resource.of_topic(TopicName.parse(TOPIC))
    asked += [(need_of("GET", path), topic) for path in REQUESTS_OF_PIPELINE]
    refused = [need for need, resource in asked if refusal(need, resource, principal, state, rules) is not None]
    assert len(refused) == (0 if is_permitted else len(asked) - 1), "anyone may ask for the version"
    for operation in ("PRODUCE", "CONSUME"):
        assert refusal(on_topic(operation), topic, principal, state, rules) is not None
