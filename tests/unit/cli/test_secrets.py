"""Canaries in credentials and settings: no output of a command contains them, not even that of a crash."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from magnetar.broker.settings.sections.authentication import SECRETS
from magnetar.cli.main import ExitCode, main

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary-of-a-token"


@pytest.fixture(autouse=True)
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    arguments = ["profiles", "set", "ewr", "--admin-url", "http://127.0.0.1:1", "--auth-params", f"token:{CANARY}"]
    assert main(arguments) is ExitCode.DONE
    assert main(["profiles", "use", "ewr"]) is ExitCode.DONE
    assert CANARY not in "".join(capsys.readouterr())


def test_a_crash_of_a_command_shows_no_local_variables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: object, **__: object) -> None:
        token = CANARY
        raise ZeroDivisionError(len(token))

    monkeypatch.setattr("magnetar.admin.connection.Connection.send", crash)
    with pytest.raises(ZeroDivisionError):
        main(["brokers", "version"])
    try:
        main(["brokers", "version"])
    except ZeroDivisionError:
        kind, error, traceback = sys.exc_info()
        assert kind is not None
        assert error is not None
        sys.excepthook(kind, error, traceback)
    shown = "".join(capsys.readouterr())
    assert "ZeroDivisionError" in shown
    assert "token = CANARY" in shown, "the source is shown"
    assert CANARY not in shown


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize("status", [None, 401, 403, 500])
def test_errors_of_a_cluster_do_not_repeat_the_credentials(
    status: int | None, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == f"Bearer {CANARY}"
        if status is None:
            message = "connection refused"
            raise httpx.ConnectError(message, request=request)
        return httpx.Response(status, json={"reason": "no"})

    monkeypatch.setattr("httpx.HTTPTransport.handle_request", lambda _, request: answer(request))
    expected = ExitCode.UNREACHABLE if status is None else ExitCode.FAILED
    assert main(["brokers", "version", "--output", output]) is expected
    assert CANARY not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "problem",
    [
        [],
        ["--brokerServicePort", "70000"],
        ["--tokenSecretKeys", CANARY],
        ["--brokerClientAuthenticationParams", CANARY],
        ["--authenticationProviders", "basic"],
        ["--authenticationProviders", "openid"],
    ],
)
def test_settings_that_are_listed_or_refused_show_no_secrets(
    problem: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(f"MAGNETAR_{name}", CANARY)
    monkeypatch.setenv("MAGNETAR_authenticationEnabled", "true")
    assert main(["broker", "--check-config", *problem]) == ExitCode.FAILED
    assert main(["broker", "--check-config", "--logFormat", "json", *problem]) == ExitCode.FAILED
    assert main(["broker", "--list-settings"]) is ExitCode.DONE
    shown = "".join(capsys.readouterr())
    assert "tokenSecretKey=" in shown
    assert CANARY not in shown
