"""``magnetar demo migrate`` with few topics, which must keep the same promises."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.clusters import free_base_port

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 900

pytestmark = [pytest.mark.long, pytest.mark.timeout(TIMEOUT_S + 30)]


def test_a_tenant_moves_there_and_back(tmp_path: Path) -> None:
    options = ["--topics", "3", "--rate", "60", "--directory", str(tmp_path), "--base-port", str(free_base_port(2))]
    done = subprocess.run(
        [sys.executable, "-m", "magnetar.cli.main", "demo", "migrate", *options, "--output", "json"],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "migration.json").read_text(encoding="utf-8"))
    assert json.loads(done.stdout) == report
    assert report["failures"] == []
    for move in (report["switch"], report["rollback"]):
        assert (move["lost"], move["repeated"], move["out_of_order"], move["audit"]) == (0, 0, 0, "clean")
        assert move["messages"] > 0
        assert 0 < move["unavailable_ms"]["p50"] <= move["unavailable_ms"]["p99"]
