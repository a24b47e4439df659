"""A broker with authorization and all four ports."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.access.binary import Port
from tests.access.roles import (
    ADMIN,
    NAMESPACE,
    PERMISSIONS,
    RIVAL,
    ROOT,
    SETTINGS,
    TENANT,
    TOPIC,
    token_of,
)
from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.server import Server


class Secured(NamedTuple):
    """The broker and its ports."""

    broker: Broker
    binary: tuple[Port, Port]
    web: tuple[Port, Port]
    """Each without and with TLS."""


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The broker with the tenants of the matrix."""
    directory = tmp_path_factory.mktemp("access")
    authority = Authority(directory / "certificates")
    binary, web = free_ports(2)
    settings = {"brokerServicePortTls": binary, "webServicePortTls": web, **authority.settings(), **SETTINGS}
    broker = Broker(directory / "broker", settings=settings)
    broker.rest.authorize(token_of(ROOT))
    context = ssl.create_default_context(cafile=str(authority.trust))
    with broker:
        make_tenants(broker)
        yield Secured(
            broker,
            (Port(broker.service_url), Port(f"pulsar+ssl://{LOOPBACK}:{binary}", context)),
            (Port(broker.admin_url), Port(f"https://{LOOPBACK}:{web}", context)),
        )


def make_tenants(broker: Server) -> None:
    """Make the tenants of the matrix, with a topic that has a subscription.

    Another topic keeps the namespace from being deleted.
    """
    for tenant, admin in ((TENANT, ADMIN), ("other", RIVAL)):
        broker.rest.ensure(f"tenants/{tenant}", {"adminRoles": [admin], "allowedClusters": [broker.cluster]})
    broker.rest.ensure(NAMESPACE_PATH, {})
    for role, actions in PERMISSIONS.items():
        broker.rest.post(f"{NAMESPACE_PATH}/permissions/{role}", actions)
    for topic in (TOPIC, f"persistent://{NAMESPACE}/kept"):
        broker.rest.put(topic_path(topic))
    broker.rest.put(f"{topic_path(TOPIC)}/subscription/s")


NAMESPACE_PATH = f"namespaces/{NAMESPACE}"
