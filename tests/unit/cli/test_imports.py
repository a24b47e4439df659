"""A command imports only its needs: a broker's start excludes the simulator, the demo and Spark."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("magnetar.demo", "magnetar.sim", "numpy", "pyarrow", "pyspark")


def test_the_command_line_loads_no_heavy_package_before_its_command_is_known() -> None:
    listing = "import json, sys, magnetar.cli.main; print(json.dumps([*sys.modules]))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True).stdout)
    assert [name for name in HEAVY if name in loaded] == []
