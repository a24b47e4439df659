"""``magnetar demo`` with few flights, which must keep the same promises."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.clusters import MAGNETAR, NAMES, free_base_port
from tests.kit.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pathlib import Path

FLIGHTS = 3_000
TIMEOUT_S = 300


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo."""
    base_port = free_base_port(len(NAMES))
    command = [*MAGNETAR, "demo", "--flights", str(FLIGHTS), "--output", "json"]
    command += ["--directory", str(directory), "--base-port", str(base_port), *arguments]
    return subprocess.run(command, capture_output=True, check=False, text=True, timeout=TIMEOUT_S)


def check(directory: Path, done: subprocess.CompletedProcess[str]) -> None:
    """Check the report of a run."""
    assert done.returncode == 0, done.stderr
    report = json.loads((directory / "report.json").read_text(encoding="utf-8"))
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
    assert lines[-1] == {"note": f"The report is in {directory / 'report.json'}."}
    assert [line["delivered"] for line in lines if "delivered" in line][-1] == FLIGHTS


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_a_short_run_keeps_every_promise(tmp_path: Path) -> None:
    check(tmp_path, run(tmp_path))


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_secured_clusters_with_a_pipeline_on_a_spark_cluster_keep_every_promise(tmp_path: Path) -> None:
    package, directory = tmp_path / "package.tar.gz", tmp_path / "demo"
    subprocess.run([*MAGNETAR, "pipeline", "package", str(package)], check=True)
    with SparkCluster(tmp_path / "spark", cores=len(NAMES)) as spark:
        check(directory, run(directory, "--secure", "--master", spark.master, "--package", str(package)))
    tokens = [each.read_text() for each in (directory / "data" / "security").glob("*.token")]
    logs = [*(directory / "data" / "logs").iterdir(), *(tmp_path / "spark").rglob("std*")]
    texts = [each.read_text(errors="replace") for each in logs]
    assert len(tokens) == 6
    assert len(texts) > 6
    assert not any(token in text for token in tokens for text in texts)
