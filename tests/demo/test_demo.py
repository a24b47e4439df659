"""``magnetar demo`` with few flights, which must keep the same promises."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.clusters import NAMES, free_base_port

if TYPE_CHECKING:
    from pathlib import Path

FLIGHTS = 3_000
TIMEOUT_S = 300


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_a_short_run_keeps_every_promise(tmp_path: Path) -> None:
    base_port = free_base_port(len(NAMES))
    arguments = ["--flights", str(FLIGHTS), "--directory", str(tmp_path), "--base-port", str(base_port)]
    done = subprocess.run(
        [sys.executable, "-m", "magnetar.cli.main", "demo", *arguments, "--output", "json"],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert json.loads(done.stdout) == report
    assert report["flights"] == report["published"] == report["delivered"] == FLIGHTS
    assert report["lost"] == 0
    planned, kill = report["switches"]
    assert (planned["kind"], planned["duplicates"], planned["bound"]) == ("planned", 0, 0)
    assert kill["kind"] == "kill"
    assert kill["duplicates"] <= kill["bound"]
    assert set(report["clusters"]) == set(NAMES)
    assert all(holding["flights"] == FLIGHTS and holding["repeated"] == 0 for holding in report["holdings"])
    assert report["replication_ms"]["count"] > 0
    assert report["progress_ms"]["count"] > 0
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert lines[-1] == {"note": f"The report is in {tmp_path / 'report.json'}."}
    assert [line["delivered"] for line in lines if "delivered" in line][-1] == FLIGHTS
