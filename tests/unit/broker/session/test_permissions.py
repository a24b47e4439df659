"""Permissions of clients: refusals of commands, and revocations on open connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from magnetar.authorization.access import Access
from magnetar.authorization.commands import COMMANDS
from magnetar.authorization.decisions import Rules
from magnetar.authorization.needs import Scope
from magnetar.base.errors import ServerError
from magnetar.base.names import TopicName
from magnetar.broker.session.permissions.revocation import Revocation
from magnetar.metadata.policies import AuthPolicies
from magnetar.security.principal import Principal
from magnetar.sim.cluster import NAMESPACE, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.links import LEASE_METADATA
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.metadata.policies import Policies

RULES = Rules(super_users=frozenset({"root"}), replicators={"link": frozenset({"jfk"})})
CHECKED = [kind for kind, rows in COMMANDS.items() if rows[0].need.scope not in (Scope.ANYONE, Scope.OWN)]
FIELDS: dict[str, Any] = {
    "subscription": "s",
    "subType": pb.CommandSubscribe.Exclusive,
    "consumer_id": 1,
    "producer_id": 1,
    "lease": 1,
    "pipeline": "p",
    "target_state": "",
    "schema": pb.Schema(name="s", type=pb.Schema.String, schema_data=b""),
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with permissions, in which the tenant has the admin ``admin``."""
    cluster = Cluster(targets=["jfk"])
    access = Access(RULES, cluster.resources)
    object.__setattr__(cluster.environment, "access", access)
    cluster.do(lambda: administer(cluster, "admin"))
    sessions = lambda: [client.session for client in cluster.clients]  # noqa: E731 - one line, used once
    revocation = Revocation(cluster.environment, access, sessions)
    yield cluster
    revocation.stop()


def administer(cluster: Cluster, *roles: str) -> Any:  # noqa: ANN401 - what a change returns
    tenants = cluster.resources.tenants
    return tenants.update(NAMESPACE.tenant, lambda found: found.model_copy(update={"adminRoles": list(roles)}))


def grant(cluster: Cluster, **fields: object) -> None:
    def changed(policies: Policies) -> Policies:
        return policies.model_copy(update={"auth_policies": AuthPolicies(**fields)})

    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, changed))


def client_of(cluster: Cluster, role: str, original: str = "") -> Client:
    client = cluster.client()
    client.session.principal = Principal(role, "token", original)
    return client


def sample(kind: int, cluster: Cluster) -> bytes:
    """Return a valid command."""
    field = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind]
    command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    body = getattr(command, field.name)
    names = {"topic": str(cluster.topic().name), "namespace": str(NAMESPACE), "target": "jfk", "request_id": 9}
    for name, value in (FIELDS | names).items():
        if name in body.DESCRIPTOR.fields_by_name:
            if isinstance(value, pb.Schema):
                getattr(body, name).CopyFrom(value)
            else:
                setattr(body, name, value)
    return commands.encode(body)


def refusals(client: Client) -> list[str]:
    """Return the texts of answers with AuthorizationError."""
    found = []
    for frame in client.heard:
        field = pb.BaseCommand.DESCRIPTOR.fields_by_number[frame.command.type].name
        body = getattr(frame.command, field)
        code = getattr(body, "error_code", None) or getattr(body, "error", None)
        if code == ServerError.AuthorizationError:
            found.append(getattr(body, "error_message", "") or body.message)
    client.heard.clear()
    return found


@pytest.mark.parametrize("kind", CHECKED)
def test_each_command_of_the_table_is_refused(kind: int, cluster: Cluster) -> None:
    root, stranger = client_of(cluster, "root"), client_of(cluster, "stranger")
    root.produce()
    root.heard.clear()
    for client in (root, stranger):
        client.say(sample(kind, cluster))
        cluster.settle()
    assert refusals(root) == []
    assert refusals(stranger) == [COMMANDS[kind][0].refusal]
    assert not stranger.session.producers
    assert not stranger.session.consumers


def test_a_command_with_an_invalid_name_is_refused_as_such(cluster: Cluster) -> None:
    client = client_of(cluster, "stranger")
    client.say(commands.encode(pb.CommandLookupTopic(topic="a://b", request_id=1)))
    (answer,) = client.take("LOOKUP_RESPONSE")
    assert answer.error != ServerError.AuthorizationError


@pytest.mark.parametrize("role", ["root", "admin", "writer"])
def test_a_role_with_permission_produces(role: str, cluster: Cluster) -> None:
    grant(cluster, namespace_auth={"writer": ["produce"]})
    client = client_of(cluster, role)
    client.produce()
    client.send("a")
    assert len(client.receipts()) == 1
    client.subscribe()
    assert bool(refusals(client)) == (role == "writer")


def test_a_producer_whose_permission_is_revoked_is_closed_at_once(cluster: Cluster) -> None:
    grant(cluster, namespace_auth={"writer": ["produce"], "other": ["produce"]})
    writer, other = client_of(cluster, "writer"), client_of(cluster, "other")
    writer.produce()
    writer.produce(2, producer_access_mode=pb.Shared)
    other.produce()
    for client in (writer, other):
        client.heard.clear()
    grant(cluster, namespace_auth={"other": ["produce"]})
    cluster.settle()
    assert writer.names() == ["CLOSE_PRODUCER", "CLOSE_PRODUCER"]
    assert other.names() == []
    writer.produce()
    assert refusals(writer) == ["Client is not authorized to Produce"]
    grant(cluster, namespace_auth={"writer": ["produce"]})
    writer.produce()
    assert len(writer.take("PRODUCER_SUCCESS")) == 1


def test_a_consumer_that_loses_its_subscription_is_closed_at_once(cluster: Cluster) -> None:
    permitted = {"reader": ["consume"], "other": ["consume"]}
    grant(cluster, namespace_auth=permitted)
    reader = client_of(cluster, "reader")
    reader.subscribe()
    reader.subscribe(2, subscription="mine")
    reader.heard.clear()
    grant(cluster, namespace_auth=permitted, subscription_auth_roles={"worker": ["other"]})
    cluster.settle()
    assert [each.consumer_id for each in reader.take("CLOSE_CONSUMER")] == [1]
    reader.subscribe()
    assert refusals(reader)[0].startswith("reader is not authorized to access subscription worker on topic ")


def test_clients_of_non_persistent_topics_lose_them_too(cluster: Cluster) -> None:
    grant(cluster, namespace_auth={"writer": ["produce", "consume"]})
    writer = client_of(cluster, "writer")
    writer.topic = TopicName("non-persistent", NAMESPACE.tenant, NAMESPACE.namespace, "events")
    writer.produce()
    writer.subscribe()
    assert refusals(writer) == []
    grant(cluster)
    cluster.settle()
    assert sorted(writer.names()) == ["CLOSE_CONSUMER", "CLOSE_PRODUCER"]


def test_an_admin_who_is_removed_loses_everything(cluster: Cluster) -> None:
    admin = client_of(cluster, "admin")
    admin.produce()
    admin.subscribe()
    admin.heard.clear()
    cluster.do(lambda: administer(cluster, "another"))
    cluster.settle()
    assert sorted(admin.names()) == ["CLOSE_CONSUMER", "CLOSE_PRODUCER"]


def test_a_producer_that_waits_is_refused_if_the_permission_is_gone_meanwhile(cluster: Cluster) -> None:
    grant(cluster, namespace_auth={"writer": ["produce"]})
    root, writer = client_of(cluster, "root"), client_of(cluster, "writer")
    root.produce(producer_access_mode=pb.Exclusive)
    writer.produce(producer_access_mode=pb.WaitForExclusive)
    assert writer.session.waiting
    grant(cluster)
    cluster.settle()
    assert not writer.session.waiting
    assert "CLOSE_PRODUCER" in writer.names()


def test_only_a_replicator_of_the_source_gets_the_name_of_its_link(cluster: Cluster) -> None:
    grant(cluster, namespace_auth={"writer": ["produce"]})
    for role, names in (("writer", ["jfk", "lga"]), ("link", ["lga"])):
        client = client_of(cluster, role)
        for number, source in enumerate(names, start=1):
            client.produce(number, f"pulsar.repl.{source}-->{cluster.name}")
        assert len(refusals(client)) == len(names)
    link = client_of(cluster, "link")
    link.produce(name=f"pulsar.repl.jfk-->{cluster.name}")
    assert len(link.take("PRODUCER_SUCCESS")) == 1


def test_the_holder_of_a_link_keeps_it_after_a_revocation(cluster: Cluster) -> None:
    cluster.topic()
    link = client_of(cluster, "link")
    lease = [pb.KeyValue(key=LEASE_METADATA, value="1")]
    link.subscribe(kind=pb.CommandSubscribe.Exclusive, subscription="pulsar.repl.jfk", metadata=lease)
    assert len(link.take("SUCCESS")) == 1
    link.heard.clear()
    grant(cluster, namespace_auth={"writer": ["produce"]})
    cluster.settle()
    assert link.names() == []


def test_a_proxy_and_its_client_must_both_be_permitted(cluster: Cluster) -> None:
    grant(cluster, namespace_auth={"proxy": ["produce"], "writer": ["produce"]})
    for original, is_permitted in (("writer", True), ("stranger", False)):
        client = client_of(cluster, "proxy", original)
        client.produce()
        assert bool(client.take("PRODUCER_SUCCESS")) == is_permitted
