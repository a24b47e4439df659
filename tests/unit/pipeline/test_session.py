from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from magnetar.pipeline.driver.launch import LOGGING, _defaults, output_to
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    import pytest


def test_the_configuration_of_sparks_log_is_there() -> None:
    assert Path(urlsplit(LOGGING).path).is_file()


def test_processes_that_are_started_meanwhile_have_a_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "logs" / "spark.log"
    program = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.stdin.read()"
    with output_to(log):
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    with process:
        sys.stdout.write("own\n")
        wait_until(lambda: log.read_text().splitlines() == ["out", "err"])
    subprocess.run([sys.executable, "-c", "print('later')"], check=True)
    assert sorted(capfd.readouterr().out.splitlines()) == ["later", "own"]
    assert log.read_text() == "out\nerr\n"


def test_without_a_file_nothing_is_redirected(capfd: pytest.CaptureFixture[str]) -> None:
    with output_to(None):
        subprocess.run([sys.executable, "-c", "print('out')"], check=True)
    assert capfd.readouterr().out == "out\n"


def test_the_defaults_of_spark_are_those_of_its_directory(tmp_path: Path) -> None:
    assert _defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {}
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 3g\n")
    assert _defaults({"SPARK_CONF_DIR": str(tmp_path)}) == {"spark.driver.memory": "3g"}
