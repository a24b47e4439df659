from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

import pytest
from passlib.hash import apr_md5_crypt, bcrypt, des_crypt, ldap_sha1, sha256_crypt

from magnetar.base.errors import AuthenticationFailedError, ConfigurationError
from magnetar.base.limits import Limit
from magnetar.security.principal import Principal
from magnetar.security.providers import basic
from magnetar.security.providers.basic import BasicProvider, read_users
from magnetar.security.providers.proof import Proof

if TYPE_CHECKING:
    from pathlib import Path

HASHES = {
    "md5": apr_md5_crypt.hash("right"),
    "bcrypt": bcrypt.using(rounds=4, ident="2y").hash("right"),
    "sha1": ldap_sha1.hash("right"),
    "sha256": sha256_crypt.using(rounds=1000).hash("right"),
    "crypt": des_crypt.hash("right"),
}


def authenticate(provider: BasicProvider, data: bytes) -> Principal:
    return asyncio.run(provider.authenticate(Proof("basic", data), 0.0))


@pytest.mark.parametrize("user", HASHES)
def test_a_password_is_checked_against_its_hash(user: str) -> None:
    provider = BasicProvider(HASHES)
    assert authenticate(provider, f"{user}:right".encode()) == Principal(user, "basic")
    for wrong in (b"wrong", b"", b"right2", b"\0", b"x" * 5000, b"\xff"):
        with pytest.raises(AuthenticationFailedError):
            authenticate(provider, user.encode() + b":" + wrong)
    provider.close()


@pytest.mark.parametrize("data", [b"nobody:right", b"md5", b"", b":", b"\xff:right", b":right"])
def test_other_users_are_refused(data: bytes) -> None:
    provider = BasicProvider(HASHES)
    with pytest.raises(AuthenticationFailedError):
        authenticate(provider, data)
    provider.close()


def test_a_right_password_is_checked_once_and_a_wrong_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, matches = [], basic._matches

    def counted(password: bytes, hashed: str) -> bool:
        checked.append(hashed)
        return matches(password, hashed)

    monkeypatch.setattr(basic, "_matches", counted)
    provider = BasicProvider(HASHES)
    for _ in range(3):
        authenticate(provider, b"sha1:right")
    assert len(checked) == 1
    for _ in range(2):
        with pytest.raises(AuthenticationFailedError):
            authenticate(provider, b"sha1:wrong")
    assert len(checked) == 3
    provider.close()


def test_a_limited_number_of_passwords_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic, "PENDING_MAX", 2)
    provider = BasicProvider(HASHES)

    async def attempts() -> list[object]:
        proof = Proof("basic", b"sha1:wrong")
        return await asyncio.gather(*[provider.authenticate(proof, 0.0) for _ in range(4)], return_exceptions=True)

    limits = [error.limit for error in asyncio.run(attempts()) if isinstance(error, AuthenticationFailedError)]
    assert limits == [None, None, Limit.PENDING_PASSWORDS, Limit.PENDING_PASSWORDS]
    provider.close()


def test_users_are_read_from_a_path_a_url_or_base64(tmp_path: Path) -> None:
    text = f"# users\n\nalice:{HASHES['md5']}\nbob:{HASHES['bcrypt']}\n"
    path = tmp_path / "htpasswd"
    path.write_text(text)
    encoded = base64.b64encode(text.encode()).decode()
    for value in (str(path), f"file://{path}", encoded, f"data:;base64,{encoded}"):
        assert read_users(value) == {"alice": HASHES["md5"], "bob": HASHES["bcrypt"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice:canary", "line 1 is not a new user with a hash"),
        (f"alice:{HASHES['md5']}\ncanary", "line 2"),
        (f"alice:{HASHES['md5']}\nalice:{HASHES['md5']}", "line 2"),
        ("alice:{SSHA}canary", "line 1"),
        ("# canary", "has no users"),
    ],
    ids=["plain", "no hash", "twice", "unknown hash", "no users"],  # hashes differ between processes
)
def test_other_files_are_refused_without_their_content(text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        read_users("data:;base64," + base64.b64encode(text.encode()).decode())
    assert "canary" not in str(raised.value)


def test_a_value_that_is_neither_a_path_nor_base64_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="neither the path of a file") as raised:
        read_users("/missing/canary.conf")
    assert "canary" not in str(raised.value)
