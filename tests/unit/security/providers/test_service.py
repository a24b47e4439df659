from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass

import pytest

from magnetar.base.errors import AuthenticationFailedError
from magnetar.security.principal import Principal
from magnetar.security.providers.proof import Proof
from magnetar.security.providers.service import AuthenticationService, Original, RequestCredentials


@dataclass(frozen=True)
class FakeCertificate:
    common_name: str
    expires_at: float = 100.0


@dataclass
class FakeProvider:
    """Accepts ``prefix`` and a role as data; the role expires at 100."""

    method: str
    prefix: str = ""
    is_closed: bool = False

    async def authenticate(self, proof: Proof, now: float) -> Principal:
        data = proof.data.decode() if proof.certificate is None else proof.certificate.common_name
        if not data.startswith(self.prefix) or not data:
            message = "wrong"
            raise AuthenticationFailedError(message)
        return Principal(data.removeprefix(self.prefix), self.method, expires_at=100.0)

    def close(self) -> None:
        self.is_closed = True


SERVICE = AuthenticationService(
    [FakeProvider("token", "first-"), FakeProvider("token", "second-"), FakeProvider("basic", "u:")],
    proxy_roles=frozenset({"proxy", "proxy2"}),
)
ANONYMOUS = AuthenticationService([FakeProvider("token", "t-")], "guest")


def connect(proof: Proof, original: Original | None = None, service: AuthenticationService = SERVICE) -> Principal:
    return asyncio.run(service.authenticate(proof, 0.0, original or Original()))


def refused(proof: Proof, original: Original | None = None) -> None:
    with pytest.raises(AuthenticationFailedError):
        connect(proof, original)


def request(service: AuthenticationService = SERVICE, **fields: str) -> Principal:
    certificate = fields.pop("certificate", None)
    given = RequestCredentials(**fields, certificate=None if certificate is None else FakeCertificate(certificate))
    return asyncio.run(service.authenticate_request(given, 0.0))


def test_several_providers_of_a_method_are_tried() -> None:
    assert connect(Proof("token", b"first-alice")).role == "alice"
    assert connect(Proof("token", b"second-alice")).role == "alice"
    refused(Proof("token", b"third-alice"))


def test_a_client_without_a_known_method_is_refused_or_anonymous() -> None:
    refused(Proof("none"))
    refused(Proof("", b"first-alice"))
    assert connect(Proof("none"), service=ANONYMOUS) == Principal("guest", "none")
    with pytest.raises(AuthenticationFailedError):
        connect(Proof("token", b"wrong"), service=ANONYMOUS)


def test_a_proxy_acts_for_an_original_principal() -> None:
    proxy = Proof("token", b"first-proxy")
    assert connect(proxy, Original("alice")) == Principal("proxy", "token", "alice", expires_at=100.0)
    refused(proxy)
    refused(proxy, Original(" "))
    refused(proxy, Original("proxy2"))
    refused(Proof("token", b"first-bob"), Original("alice"))


def test_the_credentials_of_the_original_principal_are_checked_if_given() -> None:
    proxy = Proof("token", b"first-proxy")
    assert connect(proxy, Original("alice", Proof("basic", b"u:alice"))).acting_role == "alice"
    assert connect(proxy, Original("", Proof("basic", b"u:alice"))).acting_role == "alice"
    refused(proxy, Original("root", Proof("basic", b"u:alice")))
    refused(proxy, Original("alice", Proof("basic", b"alice")))
    refused(proxy, Original("proxy2", Proof("basic", b"u:proxy2")))


def test_a_request_proves_its_role_by_its_header() -> None:
    assert request(authorization="Bearer first-alice").method == "token"
    encoded = base64.b64encode(b"u:bob").decode()
    for scheme in ("Basic", "basic", "BASIC"):
        assert request(authorization=f"{scheme} {encoded}").role == "bob"


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Bearer x", "Basic", "Basic !", "Basic dTo=x", "Digest x", "first-alice"]
)
def test_a_request_without_valid_credentials_is_refused(authorization: str) -> None:
    with pytest.raises(AuthenticationFailedError):
        request(authorization=authorization)


def test_a_request_may_prove_its_role_by_its_certificate() -> None:
    service = AuthenticationService([FakeProvider("token", "t-"), FakeProvider("tls")])
    assert request(service, certificate="alice").method == "tls"
    assert request(service, certificate="alice", authorization="Bearer t-bob").role == "bob"
    with pytest.raises(AuthenticationFailedError):
        request(service, certificate="alice", authorization="Bearer wrong")
    assert request(service, certificate="alice", authorization="Bearer t-bob", method="tls").role == "alice"


def test_only_a_request_without_credentials_is_anonymous() -> None:
    assert request(ANONYMOUS).role == "guest"
    assert request(ANONYMOUS, authorization="Basic dTpi").role == "guest"
    with pytest.raises(AuthenticationFailedError):
        request(ANONYMOUS, authorization="Bearer wrong")
    with pytest.raises(AuthenticationFailedError):
        request(ANONYMOUS, method="token")


def test_a_request_may_name_its_original_principal() -> None:
    proxied = request(authorization="Bearer first-proxy", original_principal="alice")
    assert proxied.acting_role == "alice"
    assert request(authorization="Bearer first-bob", original_principal="bob").original == ""
    for role, original in (("bob", "alice"), ("proxy", ""), ("proxy", "proxy"), ("proxy", "proxy2")):
        with pytest.raises(AuthenticationFailedError):
            request(authorization=f"Bearer first-{role}", original_principal=original)


def test_closing_closes_the_providers() -> None:
    provider = FakeProvider("token")
    AuthenticationService([provider]).close()
    assert provider.is_closed
