"""Two pipelines for the same clusters, and the remains of a killed pipeline."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.geo.helpers import log_of, wait_for_entries
from tests.kit.child import ChildProcess
from tests.kit.clusters import UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import numbered, publish
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

pytestmark = pytest.mark.timeout(600)

NAMES = ("ewr", "jfk")
TOPIC = "persistent://geo/rivals/orders"
LEASE_S = 15
LEASES = ("--lease-seconds", str(LEASE_S))


@pytest.fixture
def work() -> Iterator[Path]:
    """A temporary directory with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def rivals(directory: Path) -> list[dict[str, Any]]:
    """Return the warnings of the second pipeline."""
    lines = (directory / "second.out").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == "another_pipeline"]


@pytest.mark.long
def test_a_second_pipeline_waits_and_says_so_and_takes_over_from_one_that_is_killed(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(work))
    with LocalClusters(tmp_path, NAMES) as clusters:
        clusters.make_namespace("geo/rivals", NAMES)
        started = time.monotonic()
        clusters.start_pipeline(*LEASES)
        publish(clusters.client("ewr"), TOPIC, numbered(10))
        wait_until(lambda: clusters.rest("jfk").is_healthy() and _entries(clusters) == 10, UP_TIMEOUT_S, what="data")
        served = ",".join(f"{name}={member.admin_url}" for name, member in clusters.members.items())
        command = [sys.executable, "-m", "magnetar.cli.main", "pipeline", "replicate", "--clusters", served, *LEASES]
        second = ChildProcess(command, tmp_path, "second")
        try:
            wait_until(lambda: rivals(tmp_path), UP_TIMEOUT_S, what="a warning of the second pipeline")
            assert {event["target"] for event in rivals(tmp_path)} <= set(NAMES)
            handovers = clusters.rest("ewr").stats(TOPIC)["replication"]["jfk"]["handovers"]
            leases = (time.monotonic() - started) / LEASE_S
            assert handovers <= leases + 2, "one for each lease that passed, and none in between"
            used = _work_directories(work)
            assert len(used) == 2, "of both pipelines"
            clusters.kill_pipeline()
            publish(clusters.client("ewr"), TOPIC, numbered(10, first=10))
            wait_for_entries(clusters, TOPIC, 20, ["jfk"])
            assert log_of(clusters, "jfk", TOPIC) == numbered(20)
            _check_that_others_clean_up(clusters, work, used)
        finally:
            second.stop()


def _check_that_others_clean_up(clusters: LocalClusters, work: Path, used: list[Path]) -> None:
    """Wait until the files of the killed pipeline are gone; a new task of the second one may have removed them."""
    clusters.start_pipeline(*LEASES)
    wait_until(
        lambda: sum(path.exists() for path in used) == 1 and len(_work_directories(work)) == 2,
        UP_TIMEOUT_S,
        what="a clean work directory",
    )


def _work_directories(work: Path) -> list[Path]:
    """Return the directories of the drivers."""
    return [path.parent for path in work.glob("magnetar-*/*/java")]


def _entries(clusters: LocalClusters) -> int:
    response = clusters.rest("jfk").request("GET", f"{TOPIC.replace('://', '/')}/internalStats")
    return int(response.json()["numberOfEntries"]) if response.is_success else 0
