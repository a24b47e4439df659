from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.security.principal import Principal
from magnetar.security.providers.certificates import CertificateProvider
from magnetar.security.providers.proof import Proof


@dataclass(frozen=True)
class FakeCertificate:
    common_name: str
    expires_at: float = 100.0


def authenticate(certificate: FakeCertificate | None, now: float = 99.0) -> Principal:
    return asyncio.run(CertificateProvider().authenticate(Proof("tls", certificate=certificate), now))


def test_the_role_is_the_common_name_and_expires_with_the_certificate() -> None:
    assert authenticate(FakeCertificate("alice")) == Principal("alice", "tls", expires_at=100.0)


@pytest.mark.parametrize(
    ("certificate", "now", "kind"),
    [
        (None, 0.0, AuthenticationFailure.MISSING),
        (FakeCertificate(" "), 0.0, AuthenticationFailure.INVALID),
        (FakeCertificate("alice"), 100.0, AuthenticationFailure.EXPIRED),
    ],
)
def test_other_clients_are_refused(certificate: FakeCertificate | None, now: float, kind: str) -> None:
    with pytest.raises(AuthenticationFailedError) as raised:
        authenticate(certificate, now)
    assert raised.value.kind == kind
