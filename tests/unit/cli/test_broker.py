"""``magnetar broker``: its settings, and errors in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import magnetar
from magnetar.broker.settings.config import BrokerConfig, load
from magnetar.cli import broker
from magnetar.cli.main import ExitCode, main

if TYPE_CHECKING:
    from pathlib import Path


def test_the_listed_settings_are_a_file_that_can_be_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--list-settings"]) is ExitCode.DONE
    listed = tmp_path / "broker.conf"
    listed.write_text(capsys.readouterr().out)
    assert load(listed, {}, {}) == BrokerConfig()


def test_the_configuration_is_checked_without_a_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--check-config", "--dataDirectory", str(tmp_path / "none")]) is ExitCode.DONE
    assert not (tmp_path / "none").exists()
    assert main(["broker", "--check-config", "--brokerServicePort", "70000"]) is ExitCode.FAILED
    assert "brokerServicePort" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["broker", "standalone"])
def test_a_data_directory_that_cannot_be_made_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "_log_to_stderr", lambda _: None)  # it would affect all later tests
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    assert main([command, "--dataDirectory", str(in_the_way / "data")]) is ExitCode.FAILED
    error = capsys.readouterr().err
    assert error.startswith(f"error: cannot use dataDirectory {in_the_way / 'data'}: ")
    assert "\nhint: " in error


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == ExitCode.DONE
    assert capsys.readouterr().out == f"magnetar {magnetar.__version__}\n"
