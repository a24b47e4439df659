"""``magnetar tokens`` makes keys and tokens that brokers accept."""

from __future__ import annotations

import base64
import io
import json
import stat
from typing import TYPE_CHECKING

import jwt
import pytest

from magnetar.cli.failures import ExitCode
from magnetar.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def said(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["tokens", *line.split()]) == ExitCode.DONE
    return capsys.readouterr().out.strip()


def refused(line: str, capsys: pytest.CaptureFixture[str], code: ExitCode = ExitCode.FAILED) -> str:
    assert main(["tokens", *line.split()]) == code
    return capsys.readouterr().err


@pytest.mark.parametrize(("algorithm", "size"), [("HS256", 32), ("HS384", 48), ("HS512", 64)])
def test_a_secret_key_signs_and_validates(
    algorithm: str, size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secret.key"
    said(f"create-secret-key -a {algorithm} --output {path}", capsys)
    assert len(path.read_bytes()) == size
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = said(f"create -sk file://{path} --subject alice", capsys)
    assert jwt.get_unverified_header(token)["alg"] == algorithm
    assert json.loads(said(f"validate --secret-key file://{path} {token}", capsys)) == {"sub": "alice"}
    assert "exists already" in refused(f"create-secret-key --output {path}", capsys)


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES512"])
def test_a_private_key_signs_and_the_public_one_validates(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = tmp_path / "private.key", tmp_path / "public.key"
    said(f"create-key-pair -a {algorithm} --output-private-key {private} --output-public-key {public}", capsys)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    token = said(f"create -pk file://{private} -a {algorithm} -s alice --headers kid=one", capsys)
    assert jwt.get_unverified_header(token) == {"alg": algorithm, "kid": "one", "typ": "JWT"}
    assert said(f"validate -pk file://{public} -a {algorithm} {token}", capsys) == '{"sub": "alice"}'
    assert "not one for HS256" in refused(f"create -pk file://{private} -a HS256 -s alice", capsys)


def test_a_token_may_expire(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    key = base64.b64encode(bytes(32)).decode()
    monkeypatch.setattr("time.time", lambda: 1000.0)
    for text, seconds in (("90", 90), ("1h", 3600), ("3d", 259_200), ("1y", 31_536_000)):
        token = said(f"create -sk {key} -s alice -e {text}", capsys)
        assert json.loads(said(f"validate -sk {key} {token}", capsys))["exp"] == 1000 + seconds
    monkeypatch.setattr("time.time", lambda: 1000.0 + 31_536_000)
    assert "the token has expired" in refused(f"validate -sk {key} {token}", capsys)
    other = base64.b64encode(bytes([1] * 32)).decode()
    assert "signature of the token does not fit" in refused(f"validate -sk {other} {token}", capsys)


def test_a_token_is_shown_from_each_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = said(f"create -sk {base64.b64encode(bytes(32)).decode()} -s alice", capsys)
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    monkeypatch.setenv("TOKEN", token)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
    for arguments in (token, f"-f {file}", "-i", ""):
        header, line, claims = said(f"show {arguments}", capsys).splitlines()
        assert (json.loads(header)["alg"], line, claims) == ("HS256", "---", '{"sub": "alice"}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("show x", "this is no token"),
        ("create -s alice -sk canary", "--secret-key is not a key"),
        ("create -s alice -sk Y2FuYXJ5", "the secret key has 6 bytes"),
        ("create -s alice -pk Y2FuYXJ5", "--private-key is no private key"),
        ("create-secret-key -a RS256", "RS256 has no secret keys"),
        ("create-key-pair -a HS256 --output-private-key a --output-public-key b", "HS256 has no key pairs"),
        ("create-secret-key -o /nowhere/key", "cannot write /nowhere/key: No such file"),
    ],
)
def test_what_cannot_be_used_is_refused_without_secrets(
    line: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = refused(line, capsys)
    assert reason in shown
    assert "canary" not in shown


@pytest.mark.parametrize(
    "line",
    [
        "create -s alice",
        "create -s alice -sk x -pk y",
        "create -s alice -sk AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= -e soon",
        "create -s alice -sk AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= -hs kid",
        "validate x",
        "show x -i",
        "show",
        "create-secret-key -a none",
    ],
)
def test_wrong_usage(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    refused(line, capsys, ExitCode.USAGE)
