"""``magnetar broker``: its settings, and errors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

import magnetar
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.loading import IgnoredKey, load
from magnetar.broker.settings.pulsar_keys import Effect
from magnetar.cli import broker
from magnetar.cli.ignored_keys import log_ignored
from magnetar.cli.main import ExitCode, main

if TYPE_CHECKING:
    from pathlib import Path


def test_the_listed_settings_are_a_file_that_can_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--list-settings"]) is ExitCode.DONE
    listed = tmp_path / "broker.conf"
    listed.write_text(capsys.readouterr().out)
    assert load(listed, {}, {}).config == BrokerConfig()


def test_the_configuration_is_checked_without_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--check-config", "--dataDirectory", str(tmp_path / "none")]) is ExitCode.DONE
    assert not (tmp_path / "none").exists()
    assert main(["broker", "--check-config", "--brokerServicePort", "70000"]) is ExitCode.FAILED
    assert "brokerServicePort" in capsys.readouterr().err


def test_shares_of_the_memory_that_do_not_fit_are_found_without_a_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--check-config", "--memoryLimitMB", "1024", "--managedLedgerCacheSizeMB", "1024"]) is (
        ExitCode.FAILED
    )
    assert "memoryLimitMB=1024 is less than the" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["flags", "environment", "file"])
def test_keys_that_cannot_be_used_are_found_without_a_start_and_not_shown(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "token",
        "tokenSecretKey": "data:;base64,Y2FuYXJ5",
        "brokerClientAuthenticationParameters": "token:Y2FuYXJ5",
    }
    arguments = ["broker", "--check-config"]
    if source == "flags":
        arguments += [word for key, value in settings.items() for word in (f"--{key}", value)]
    elif source == "environment":
        for key, value in settings.items():
            monkeypatch.setenv(f"MAGNETAR_{key}", value)
    else:
        file = tmp_path / "broker.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        arguments += ["--config", str(file)]
    assert main(arguments) is ExitCode.FAILED
    shown = capsys.readouterr()
    assert "tokenSecretKey has 6 bytes" in shown.err
    assert "Y2FuYXJ5" not in shown.err + shown.out


def test_ignored_keys_are_listed_by_their_effects_without_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(
        "kinitCommand=data:;base64,c2VjcmV0\nzookeeperServers=\nloadBalancerEnabled=false\nauthorizationProvider=other\n"
    )
    assert main(["broker", "--check-config", "--config", str(file)]) is ExitCode.FAILED
    refused = capsys.readouterr().err
    first, problem, *_ = refused.splitlines()
    assert first == "error: invalid configuration"
    assert problem.startswith("  authorizationProvider: dangerous to ignore: permissions are decided by Pulsar's own ")
    assert "--acknowledge-ignored" in refused.splitlines()[-1]
    assert main(["broker", "--check-config", "--acknowledge-ignored", "--config", str(file)]) is ExitCode.DONE
    listed = capsys.readouterr().err
    lines = [line.partition(":")[0] for line in listed.splitlines() if line]
    assert lines == [
        "the configuration of cluster standalone is valid",
        "dangerous to ignore if changed",
        "* authorizationProvider",
        "ignored",
        "* kinitCommand",
        "no meaning in Magnetar",
        "* loadBalancerEnabled",
        "  zookeeperServers",
    ]
    assert "c2VjcmV0" not in refused + listed


def test_ignored_keys_without_the_default_are_logged_one_by_one() -> None:
    keys = [
        IgnoredKey("loadBalancerEnabled", Effect.NO_MEANING, "a", is_default=False),
        IgnoredKey("tlsEnabled", Effect.DANGEROUS, "b", is_default=False),
        IgnoredKey("maxTenants", Effect.IGNORED, "c", is_default=True),
    ]
    with capture_logs() as logs:
        log_ignored(keys)
    assert [(line["event"], line["log_level"], line.get("key")) for line in logs] == [
        ("setting_ignored", "info", "loadBalancerEnabled"),
        ("setting_ignored", "warning", "tlsEnabled"),
        ("settings_ignored", "info", None),
    ]
    assert (logs[-1]["no_meaning"], logs[-1]["dangerous"], logs[-1]["ignored"]) == (1, 1, 1)


@pytest.mark.parametrize("command", ["broker", "standalone"])
def test_a_data_directory_that_cannot_be_made_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "configure_log", lambda *_: None)  # it would affect all later tests
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    assert main([command, "--dataDirectory", str(in_the_way / "data")]) is ExitCode.FAILED
    error = capsys.readouterr().err
    assert error.startswith(f"error: cannot use dataDirectory {in_the_way / 'data'}: ")
    assert "\nhint: " in error


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == ExitCode.DONE
    assert capsys.readouterr().out == f"magnetar {magnetar.__version__}\n"
