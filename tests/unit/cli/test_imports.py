"""A command imports only its needs: a broker's start excludes the simulator, the demo and Spark."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from magnetar.cli.main import ExitCode, main

HEAVY = ("magnetar.demo", "magnetar.sim", "numpy", "pyarrow", "pyspark")
OF_OTHER_COMMANDS = ("httpx", "magnetar.admin.client", "magnetar.offline", "magnetar.ops", "magnetar.pipeline")


def test_the_command_line_loads_no_heavy_package_before_its_command_is_known() -> None:
    loaded = loaded_by("import magnetar.cli.main")
    assert [name for name in HEAVY if name in loaded] == []


def test_a_broker_loads_no_module_of_another_command() -> None:
    loaded = loaded_by(
        "from magnetar.cli.main import main; main(['broker', '--list-settings']); import magnetar.broker.service"
    )
    assert "magnetar.broker.service" in loaded
    assert [name for name in (*HEAVY, *OF_OTHER_COMMANDS) if name in loaded] == []


@pytest.mark.parametrize("name", ["unknown", "Broker", "main", "output"])
def test_only_commands_are_found_by_name(name: str) -> None:
    assert main([name]) == ExitCode.USAGE


def loaded_by(statements: str) -> list[str]:
    """Return the modules that are loaded in a process after ``statements``."""
    program = f"import json, sys; {statements}; print(json.dumps([*sys.modules]))"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
    loaded: list[str] = json.loads(output.splitlines()[-1])
    return loaded
