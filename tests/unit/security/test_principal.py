from __future__ import annotations

from magnetar.admin.identity import principal_of, set_principal
from magnetar.security.principal import NOBODY, Principal


def test_the_original_role_acts_behind_a_proxy() -> None:
    assert Principal("proxy", "token", "alice").acting_role == "alice"
    assert Principal("alice", "token").acting_role == "alice"


def test_a_proof_expires_at_its_time() -> None:
    principal = Principal("alice", "token", expires_at=10.0)
    assert not principal.has_expired(9.9)
    assert principal.has_expired(10.0)
    assert not Principal("alice", "token").has_expired(1e12)


def test_nobody_is_not_authenticated() -> None:
    assert not NOBODY.is_authenticated
    assert Principal("alice", "token").is_authenticated


def test_a_request_has_the_principal_that_the_web_server_set() -> None:
    scope: dict[str, object] = {}
    assert principal_of(scope) is NOBODY
    set_principal(scope, Principal("alice", "basic"))
    assert principal_of(scope).role == "alice"
