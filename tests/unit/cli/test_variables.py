"""Misspelt environment variables of the command line."""

from __future__ import annotations

import pytest

from magnetar.cli.main import app
from magnetar.cli.variables import misspelt_variables


@pytest.mark.parametrize("name", ["MAGNETAR_ADMINURL", "MAGNETAR_ADMIN_UR", "MAGNETAR_ADMIN_URLS"])
def test_a_misspelt_variable_gets_a_hint(name: str) -> None:
    assert list(misspelt_variables(app, {name: "x"})) == [
        f"warning: the environment variable {name} is not known; did you mean MAGNETAR_ADMIN_URL?"
    ]


@pytest.mark.parametrize(
    "name", ["MAGNETAR_ADMIN_URL", "MAGNETAR_PORT", "MAGNETAR_clusterNam", "MAGNETAR_", "ADMIN_URLS"]
)
def test_other_variables_get_none(name: str) -> None:
    assert list(misspelt_variables(app, {name: "x"})) == []
