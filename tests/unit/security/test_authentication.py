"""Proofs of a client's identity, with the parameters of Pulsar's plug-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.security.authentication import Anonymous, Certificate, authentication

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
BASIC_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationBasic"
TLS_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationTls"


@pytest.mark.parametrize(
    ("plugin", "params"),
    [
        *(("", "token:abc"), ("token", "token:abc"), (TOKEN_PLUGIN, "token:abc"), (TOKEN_PLUGIN, "data:abc")),
        *((TOKEN_PLUGIN, "abc"), ("token", "env:MAGNETAR_TEST_TOKEN")),
    ],
)
def test_a_token_is_sent_as_such_and_as_a_bearers(plugin: str, params: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_TEST_TOKEN", "abc")
    found = authentication(plugin, params)
    assert (found.method, found.data(), found.authorization()) == ("token", b"abc", "Bearer abc")


def test_a_token_in_a_file_is_read_at_each_use(tmp_path: Path) -> None:
    file = tmp_path / "my token"
    found = authentication("token", file.as_uri())
    for text in ("one", "two"):
        file.write_text(f"{text}\n")
        assert found.data() == text.encode()
    file.unlink()
    with pytest.raises(ConfigurationError, match=r"cannot read the token in .*my token: No such file"):
        found.data()


@pytest.mark.parametrize("params", ["token:s3 cret", "token:s3cret\u00e4", "a\x00b", "env:MAGNETAR_TEST_UNSET"])
def test_a_text_that_is_no_token_is_refused_without_being_printed(params: str) -> None:
    with pytest.raises(ConfigurationError, match="the token is empty or no token") as caught:
        authentication("token", params).data()
    assert params not in str(caught.value)


@pytest.mark.parametrize("params", ['{"userId": "me", "password": "a:b"}', "userId:me,password:a:b"])
@pytest.mark.parametrize("plugin", ["basic", BASIC_PLUGIN])
def test_basic_sends_user_and_password(plugin: str, params: str) -> None:
    found = authentication(plugin, params)
    assert (found.method, found.data(), found.authorization()) == ("basic", b"me:a:b", "Basic bWU6YTpi")


@pytest.mark.parametrize(
    "params", ["tlsCertFile:/c.pem,tlsKeyFile:/k.pem", '{"tlsCertFile":"/c.pem","tlsKeyFile":"/k.pem"}']
)
def test_tls_names_the_files(params: str) -> None:
    found = authentication(TLS_PLUGIN, params)
    assert found == Certificate("/c.pem", "/k.pem")
    assert (found.method, found.data()) == ("tls", b"")


@pytest.mark.parametrize(
    ("plugin", "params", "reason"),
    [
        ("", "abc", "must be token:TOKEN, file:///path/of/a/token or env:VARIABLE\nhint: other ones need authPlugin"),
        ("x.AuthenticationAthenz", "", "authPlugin x.AuthenticationAthenz is not supported"),
        (BASIC_PLUGIN, "userId:me", "authParams of basic must have userId and password"),
        (BASIC_PLUGIN, "{", "authParams of basic must have userId and password"),
        (BASIC_PLUGIN, "[" * 100_000, "authParams of basic must have userId and password"),
        (BASIC_PLUGIN, '{"userId":"a:b","password":"s3cret"}', "userId must not contain a colon"),
        (TLS_PLUGIN, "tlsCertFile:/c.pem", "authParams of tls must have tlsCertFile and tlsKeyFile"),
    ],
)
def test_other_parameters_are_refused(plugin: str, params: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        authentication(plugin, params)
    assert reason in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_nothing_is_no_proof_and_secrets_are_not_printed() -> None:
    assert authentication("", "") == Anonymous()
    assert (Anonymous().method, Anonymous().data()) == ("none", b"")
    for plugin, params in (("token", "token:s3cret"), ("basic", "userId:me,password:s3cret")):
        assert "s3cret" not in repr(authentication(plugin, params))
