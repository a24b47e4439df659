"""Clusters with authentication and authorization: the pipeline and the brokers are replicators, and nothing else."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import jwt
import pulsar
import pytest

from tests.geo.helpers import wait_for_backlog, wait_for_entries
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import connect, numbered, publish, receive

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * UP_TIMEOUT_S)]

SECRET = b"a secret key of more than 32 bytes for this test"
NAMES = ("ewr", "jfk")
TOPIC = "persistent://geo/authorized/orders"


def token(role: str) -> str:
    return jwt.encode({"sub": role}, SECRET, "HS256")


def settings(name: str) -> dict[str, object]:
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": "token",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(SECRET).decode()}",
        "brokerClientAuthenticationPlugin": "token",
        "brokerClientAuthenticationParameters": f"token:{token(f'broker-{name}')}",
        "authorizationEnabled": "true",
        "superUserRoles": "root",
        "replicatorRoles": "pipeline=*,broker-ewr=ewr,broker-jfk=jfk",
    }


class AuthorizedClusters(LocalClusters):
    """Clusters that only roles with permission use; the tests are superusers."""

    def client(self, name: str) -> pulsar.Client:
        """Return a client of the superuser."""
        if name not in self._clients:
            authentication = pulsar.AuthenticationToken(token("root"))
            self._clients[name] = connect(self.members[name].service_url, authentication=authentication)
        return self._clients[name]


def test_messages_and_acknowledgements_are_replicated_by_roles_for_it(tmp_path: Path) -> None:
    clusters = AuthorizedClusters(tmp_path, NAMES)
    for name, broker in clusters.brokers.items():
        broker.settings = settings(name)
        broker.rest.authorize(token("root"))
    conf = tmp_path / "client.conf"
    conf.write_text(f"authPlugin=token\nauthParams=token:{token('pipeline')}\n")
    with clusters:
        clusters.make_namespace("geo/authorized", NAMES)
        clusters.start_pipeline("--client-conf", str(conf))
        consumer = clusters.client("ewr").subscribe(TOPIC, "s", replicate_subscription_state_enabled=True)
        publish(clusters.client("ewr"), TOPIC, numbered(10))
        wait_for_entries(clusters, TOPIC, 10, NAMES)
        receive(consumer, 10, acknowledge=True)
        wait_for_backlog(clusters, TOPIC, "s", 0, NAMES)
        publish(clusters.client("jfk"), TOPIC, numbered(10, first=10))
        wait_for_entries(clusters, TOPIC, 20, NAMES)
