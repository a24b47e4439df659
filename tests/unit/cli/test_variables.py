"""Misspelt environment variables of the command line."""

from __future__ import annotations

import json

import pytest

from magnetar.cli.main import ExitCode, app, main
from magnetar.cli.variables import misspelt_variables


@pytest.mark.parametrize("name", ["MAGNETAR_ADMINURL", "MAGNETAR_ADMIN_UR", "MAGNETAR_ADMIN_URLS"])
def test_a_misspelt_variable_gets_a_hint(name: str) -> None:
    assert list(misspelt_variables(app, {name: "x"})) == [
        f"the environment variable {name} is not known; did you mean MAGNETAR_ADMIN_URL?"
    ]


@pytest.mark.parametrize(
    "name", ["MAGNETAR_ADMIN_URL", "MAGNETAR_PORT", "MAGNETAR_clusterNam", "MAGNETAR_", "ADMIN_URLS"]
)
def test_other_variables_get_none(name: str) -> None:
    assert list(misspelt_variables(app, {name: "x"})) == []


def test_a_warning_is_json_if_the_output_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAGNETAR_ADMINURL", "http://a")
    assert main(["profiles", "list", "-o", "json"]) is ExitCode.DONE
    assert json.loads(capsys.readouterr().err)["warning"].endswith("did you mean MAGNETAR_ADMIN_URL?")
    assert main(["profiles", "list"]) is ExitCode.DONE
    assert capsys.readouterr().err.startswith("warning: the environment variable MAGNETAR_ADMINURL")
