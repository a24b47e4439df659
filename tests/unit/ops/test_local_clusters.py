from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.ops.layout import LocalCluster, lay_out, pipeline_command
from magnetar.ops.local_clusters import START_TIMEOUT_SECONDS, Host, LocalClusters, StartStep, StoppedError
from tests.unit.ops.fakes import FakeClock, FakeProcesses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Stage:
    """Two clusters with fake processes, health and clock."""

    def __init__(self, directory: Path, *, with_pipeline: bool = True) -> None:
        self.processes = FakeProcesses()
        self.clock = FakeClock()
        self.said: list[str] = []
        self.steps: list[StartStep] = []
        self.introduced: list[str] = []
        self.healthy = True
        self.waits: list[Callable[[], bool]] = []
        self.log = directory / "logs" / "pipeline.log"
        clusters = lay_out(["ewr", "jfk"], directory, 16650)
        self.local = LocalClusters(
            clusters,
            Host(
                stop_request=self,
                say=self.said.append,
                report=self.steps.append,
                start=self.processes,
                is_healthy=lambda _: self.healthy,
                introduce=self.introduce,
                monotonic=self.clock,
                pause=self.clock.pass_time,
            ),
            pipeline_command(clusters) if with_pipeline else None,
        )

    def introduce(self, clusters: Sequence[LocalCluster]) -> None:
        self.introduced = [cluster.name for cluster in clusters]

    def wait(self, timeout: float) -> bool:
        self.clock.pass_time(timeout)
        return self.waits.pop(0)() if self.waits else False

    def spark_starts(self) -> bool:
        return self._log("spark_started")

    def pipeline_is_ready(self) -> bool:
        return self._log("ready")

    def _log(self, event: str) -> bool:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f'{{"event": "{event}"}}\n')
        return False


def test_brokers_first_then_records_then_the_pipeline(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.waits = [stage.spark_starts, stage.pipeline_is_ready]
    stage.local.start()
    assert stage.processes.names == ["ewr", "jfk", "pipeline"]
    assert stage.introduced == ["ewr", "jfk"]
    assert stage.local.endpoints() == {
        "clusters": {
            "ewr": {"service_url": "pulsar://127.0.0.1:16650", "admin_url": "http://127.0.0.1:16651", "pid": 100},
            "jfk": {"service_url": "pulsar://127.0.0.1:16660", "admin_url": "http://127.0.0.1:16661", "pid": 101},
        },
        "pipeline": {"pid": 102},
    }


def test_the_steps_of_the_start_are_reported(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.waits = [stage.spark_starts, stage.pipeline_is_ready]
    stage.local.start()
    assert [(step.name, None if step.seconds is None else round(step.seconds, 1)) for step in stage.steps] == [
        ("broker ewr", None),
        ("broker jfk", None),
        ("broker ewr", 0.0),
        ("broker jfk", 0.0),
        ("registration", None),
        ("registration", 0.0),
        ("Spark", None),
        ("Spark", 0.1),
        ("pipeline", None),
        ("pipeline", 0.1),
    ]


def test_a_log_that_is_rotated_meanwhile_is_read_from_its_begin(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.log.parent.mkdir()
    stage.log.write_text("x" * 1000)

    def rotate() -> bool:
        stage.log.rename(tmp_path / "old")
        return stage.spark_starts()

    stage.waits = [rotate, stage.pipeline_is_ready]
    stage.local.start()
    assert stage.steps[-1].seconds is not None


def test_the_failure_of_the_pipeline_shows_the_log_of_spark(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    def fail() -> bool:
        stage.log.write_text("no gateway\n")
        stage.log.with_name("spark.log").write_text("no memory\n")
        stage.processes.latest("pipeline").status = 1
        return False

    stage.waits = [fail]
    with pytest.raises(ConfigurationError, match=r"(?s)pipeline ended with status 1.*no gateway.*no memory"):
        stage.local.start()


def test_the_log_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.log.parent.mkdir()
    stage.spark_starts()
    stage.pipeline_is_ready()
    with pytest.raises(ConfigurationError, match="pipeline was not ready within"):
        stage.local.start()


def test_without_a_pipeline(tmp_path: Path) -> None:
    stage = Stage(tmp_path, with_pipeline=False)
    stage.local.start()
    assert stage.processes.names == ["ewr", "jfk"]
    assert stage.local.endpoints()["pipeline"] is None


def test_a_broker_that_ends_at_the_start_is_reported_with_its_log(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.healthy = False

    def fail() -> bool:
        (tmp_path / "logs" / "ewr.log").write_text("error: disk on fire\n", encoding="utf-8")
        stage.processes.latest("ewr").status = 1
        return False

    stage.waits = [fail]
    with pytest.raises(ConfigurationError, match=r"(?s)ewr ended with status 1.*disk on fire"):
        stage.local.start()


def test_a_broker_that_never_serves_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.healthy = False
    with pytest.raises(ConfigurationError, match=f"ewr was not ready within {START_TIMEOUT_SECONDS:g} s"):
        stage.local.start()


def test_can_be_stopped_while_it_starts(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.healthy = False
    stage.waits = [lambda: True]
    with pytest.raises(StoppedError):
        stage.local.start()


def test_dead_processes_are_restarted_and_reported(tmp_path: Path) -> None:
    stage = Stage(tmp_path, with_pipeline=False)
    stage.local.start()

    def die() -> bool:
        stage.processes.latest("jfk").status = -9
        return False

    stage.waits = [die, *[lambda: False] * 10, lambda: True]
    stage.local.supervise()
    assert stage.processes.names == ["ewr", "jfk", "jfk"]
    assert stage.said == [
        "jfk was killed (SIGKILL); restarting it in 0.5 s",
        "jfk restarted: process 102",
    ]


def test_stops_all_and_kills_what_does_not_obey(tmp_path: Path) -> None:
    stage = Stage(tmp_path, with_pipeline=False)
    stage.local.start()
    stage.processes.latest("jfk").obeys = False
    stage.local.stop()
    assert stage.processes.latest("ewr").status == 0
    assert stage.processes.latest("jfk").status == -9
    assert stage.said == ["jfk did not end within 20 s: killed"]
