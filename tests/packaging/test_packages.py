"""The sdist, and the wheel that is built from it, in an empty environment."""

from __future__ import annotations

import email
import json
import os
import signal
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from magnetar import __version__
from tests.kit.clusters import free_base_port

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the sdist, and the wheel that was built from it."""
    environment, directory = tmp_path_factory.mktemp("builder"), tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "build"], check=True)
    subprocess.run([python, "-m", "build", "--outdir", str(directory), str(ROOT)], check=True, stdout=subprocess.PIPE)
    (sdist,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def wheel(built: tuple[Path, Path]) -> Path:
    return built[1]


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


def test_the_sdist_holds_the_sources_and_no_built_files(built: tuple[Path, Path]) -> None:
    sdist, _ = built
    root = sdist.name.removesuffix(".tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"{root}/") for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True)
    if tracked.returncode == 0:
        assert names - {root, "PKG-INFO"} == set(filter(None, tracked.stdout.split("\0")))
    assert {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src/magnetar/cli/main.py"} <= names


def test_the_metadata_name_the_extras_and_the_license(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
        assert any(each.endswith("/LICENSE") for each in archive.namelist())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(metadata.get_all("Provides-Extra", [])) == sorted(project["optional-dependencies"])
    required = metadata.get_all("Requires-Dist", [])
    assert len([each for each in required if "extra ==" not in each]) == len(project["dependencies"])
    pyspark = {each.partition("; ")[2] for each in required if each.startswith("pyspark")}
    assert pyspark == {"extra == 'spark'", "extra == 'pipeline'", "extra == 'demo'"}
    assert metadata["Version"] == __version__


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
