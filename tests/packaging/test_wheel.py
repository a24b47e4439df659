"""The built wheel in an empty environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.kit.clusters import free_base_port

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(ROOT)]
    subprocess.run(pip, check=True)
    (built,) = directory.iterdir()
    return built


@pytest.fixture(scope="module")
def magnetar(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of an environment with the wheel and its dependencies."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    return environment / "bin" / "magnetar"


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"magnetar", f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"}


def test_a_cluster_starts_from_it_without_spark(magnetar: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    base = free_base_port(1)
    up = [
        str(magnetar),
        "up",
        "--clusters",
        "ewr",
        "--base-port",
        str(base),
        "--data",
        str(tmp_path / "up"),
        "--output",
        "json",
    ]
    process = subprocess.Popen(up, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        endpoints = json.loads(process.stdout.readline())
        (cluster,) = endpoints["clusters"].values()
        healthcheck = [str(magnetar), "brokers", "healthcheck", "--admin-url", cluster["admin_url"]]
        assert subprocess.run(healthcheck, env=environment, cwd=tmp_path, check=False).returncode == 0
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_the_pipeline_says_what_it_lacks(magnetar: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    replicate = [str(magnetar), "pipeline", "replicate", "--clusters", "ewr=http://localhost:1,jfk=http://localhost:2"]
    done = subprocess.run(replicate, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'magnetar[pipeline]'" in done.stderr
