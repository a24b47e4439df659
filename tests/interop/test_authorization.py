"""The table of requests, compared with the answers of an Apache Pulsar with authorization."""

from __future__ import annotations

import base64
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

import jwt
import pytest

from magnetar.admin.api import served_routes
from magnetar.admin.exchange import Context
from magnetar.admin.pulsar_api.routes import GROUPS, shape
from magnetar.authorization.decisions import refusal
from magnetar.authorization.needs import Resource
from magnetar.authorization.routes import need_of
from magnetar.base.names import NamespaceName, TopicName
from magnetar.security.principal import Principal
from reference.broker import administration
from tests.access.roles import ADMIN, PERMISSIONS, READER, ROOT, RULES, SECRET, STATE, STRANGER, WRITER
from tests.kit.pulsar import PulsarStandalone
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PACKAGE = "org.apache.pulsar"
NAMES = {
    "tenant": "shop",
    "namespace": "web",
    "topic": "x",
    "subscription": "s",
    "cluster": "apache",
    "bundle": "0x00000000_0xffffffff",
}
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

DIFFERENT = {
    # Apache Pulsar looks the topic up first, which needs another permission.
    ("POST", "/admin/v2/persistent/{tenant}/{namespace}/{topic}/createMissedPartitions"),
    ("POST", "/admin/v2/non-persistent/{tenant}/{namespace}/{topic}/createMissedPartitions"),
    # Apache Pulsar does not check a request without properties.
    ("PUT", "/admin/v2/persistent/{tenant}/{namespace}/{topic}/properties"),
}


def token(role: str) -> str:
    return jwt.encode({"sub": role}, SECRET, "HS256")


def authorization_settings(key: bytes, superuser: str) -> dict[str, str]:
    """Return the settings of a broker with authorization; ``superuser`` is a token of the role ``root``."""
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": f"{PACKAGE}.broker.authentication.AuthenticationProviderToken",
        "authorizationEnabled": "true",
        "superUserRoles": ROOT,
        "tokenSecretKey": f"data:;base64,{base64.b64encode(key).decode()}",
        "brokerClientAuthenticationPlugin": f"{PACKAGE}.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{superuser}",
    }


@pytest.fixture(scope="module")
def secured(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    settings = authorization_settings(SECRET, token(ROOT))
    apache = PulsarStandalone(tmp_path_factory.mktemp("authorized"), "apache", settings)
    apache.rest.authorize(token(ROOT))
    with apache:
        apache.rest.ensure("tenants/shop", {"adminRoles": [ADMIN], "allowedClusters": ["apache"]})
        apache.rest.ensure("namespaces/shop/web", {})
        apache.rest.put("persistent/shop/web/x")
        apache.rest.put("persistent/shop/web/x/subscription/s")
        for role, actions in PERMISSIONS.items():
            apache.rest.post(f"namespaces/shop/web/permissions/{role}", actions)
        yield apache


def common_routes() -> list[tuple[str, str]]:
    """Return the methods and paths that both systems have."""
    of_pulsar = {(each.method, shape(each.path)) for group in GROUPS for each in group.routes()}
    served = [(method, route.path) for route in served_routes(Context(*administration())) for method in route.methods]
    return [(method, path) for method, path in served if (method, shape(path)) in of_pulsar]


def resource_of(path: str) -> Resource:
    if "{topic}" in path:
        domain = "non-persistent" if "/non-persistent/" in path else "persistent"
        return Resource.of_topic(TopicName(domain, "shop", "web", "x"), "s" if "{subscription}" in path else "")
    if "{namespace}" in path:
        return Resource.of_namespace(NamespaceName("shop", "web"))
    return Resource("shop" if "{tenant}" in path else "")


@pytest.mark.parametrize("role", [STRANGER, READER, WRITER, ADMIN])
def test_requests_are_refused_as_by_apache_pulsar(secured: PulsarStandalone, role: str) -> None:
    compared, wrong = 0, []
    with Rest(secured.admin_url) as rest:
        rest.authorize(token(role))
        for method, path in common_routes():
            if method != "GET" and role != "stranger":
                continue  # it would change something
            url = re.sub(r"{(\w+)(:int)?}", lambda found: NAMES.get(found[1], "1"), path)
            answer = rest.request(method, f"../..{url}", {} if method in ("PUT", "POST") else None)
            if not (answer.is_success or answer.status_code in REFUSED) or (method, path) in DIFFERENT:
                continue  # it is refused for another reason
            compared += 1
            ours = refusal(need_of(method, path), resource_of(path), Principal(role, "token"), STATE, RULES)
            theirs = answer.status_code if answer.status_code in REFUSED else None
            if theirs != (ours.status if ours is not None else None):
                wrong.append((method, path, theirs, ours))
            elif ours is not None and not _is_same(ours.reason, answer.json()["reason"]):
                wrong.append((method, path, answer.json()["reason"], ours))
    assert wrong == []
    assert compared > 100


def _is_same(ours: str, theirs: str) -> bool:
    """Return whether two texts are equal, or the one of Apache Pulsar is one of those that it has in addition."""
    return ours == theirs or "validateBoth" in theirs or "[LOOKUP]" in theirs
