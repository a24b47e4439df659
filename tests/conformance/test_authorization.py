"""Authorization of a broker with the official client: permissions of roles, and their revocation."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import jwt
import pulsar
import pytest

from tests.kit.broker import Broker
from tests.kit.messages import connect
from tests.kit.rest import Rest
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = b"a secret key of more than 32 bytes for this test"
TOPIC = "persistent://shop/web/orders"
PERMISSIONS = "namespaces/shop/web/permissions"


def token(role: str) -> str:
    return jwt.encode({"sub": role}, SECRET, "HS256")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with the tenant ``shop``, whose admin is ``admin``."""
    broker = Broker(
        tmp_path_factory.mktemp("authorized"),
        settings={
            "authenticationEnabled": "true",
            "authenticationProviders": "token",
            "tokenSecretKey": f"data:;base64,{base64.b64encode(SECRET).decode()}",
            "authorizationEnabled": "true",
            "superUserRoles": "root",
        },
    )
    broker.rest.authorize(token("root"))
    with broker:
        broker.rest.ensure("tenants/shop", {"adminRoles": ["admin"], "allowedClusters": [broker.cluster]})
        broker.rest.ensure("namespaces/shop/web", {})
        yield broker


@contextmanager
def client_of(broker: Broker, role: str) -> Iterator[pulsar.Client]:
    client = connect(broker.service_url, authentication=pulsar.AuthenticationToken(token(role)))
    yield client
    client.close()


@pytest.fixture
def admin(secured: Broker) -> Iterator[Rest]:
    with Rest(secured.admin_url) as rest:
        rest.authorize(token("admin"))
        yield rest


@pytest.mark.parametrize("role", ["root", "admin"])
def test_superusers_and_admins_use_the_topics_of_a_tenant(secured: Broker, role: str) -> None:
    with client_of(secured, role) as client:
        consumer = client.subscribe(TOPIC, f"of-{role}")
        client.create_producer(TOPIC).send(b"x")
        consumer.acknowledge(consumer.receive(5000))


def test_a_role_without_permission_is_refused_at_once(secured: Broker) -> None:
    with client_of(secured, "stranger") as client:
        with pytest.raises(pulsar.AuthorizationError):
            client.create_producer(TOPIC)
        with pytest.raises(pulsar.AuthorizationError):
            client.subscribe(TOPIC, "s")


def test_permissions_take_effect_at_once_on_open_connections(secured: Broker, admin: Rest) -> None:
    with client_of(secured, "writer") as client:
        admin.post(f"{PERMISSIONS}/writer", ["produce"])
        producer = client.create_producer(TOPIC)
        producer.send(b"x")
        with pytest.raises(pulsar.AuthorizationError):
            client.subscribe(TOPIC, "s")
        admin.delete(f"{PERMISSIONS}/writer")
        publishers = partial(lambda: secured.rest.stats(TOPIC)["publishers"])
        wait_until(lambda: not publishers(), 5, what="the producer is closed")
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(TOPIC)


def test_a_name_makes_nobody_a_replicator(secured: Broker, admin: Rest) -> None:
    admin.post(f"{PERMISSIONS}/forger", ["produce", "consume"])
    with client_of(secured, "forger") as client:
        with pytest.raises(pulsar.AuthorizationError):
            client.create_producer(TOPIC, producer_name="pulsar.repl.jfk")
        with pytest.raises(pulsar.AuthorizationError):
            client.subscribe(TOPIC, "pulsar.dedup")


def test_requests_are_refused_as_by_apache_pulsar(secured: Broker, admin: Rest) -> None:
    refused = admin.request("GET", "tenants")
    assert (refused.status_code, refused.json()) == (401, {"reason": "This operation requires super-user access"})
    with Rest(secured.admin_url) as stranger:
        stranger.authorize(token("stranger"))
        refused = stranger.request("GET", "namespaces/shop/web/topics")
    text = "Unauthorized to validateNamespaceOperation for operation [GET_TOPICS] on namespace [shop/web]"
    assert (refused.status_code, refused.json()) == (403, {"reason": text})
