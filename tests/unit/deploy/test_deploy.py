"""The files in ``deploy`` against the code: settings, commands, ports, REST paths, and files that they name."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from magnetar import __version__
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.loading import ENVIRONMENT_PREFIX, LoadedSettings, load
from magnetar.cli.main import app
from magnetar.cli.variables import misspelt_variables
from magnetar.pipeline.addresses import _name_and_url
from tests.kit.command_line import require_valid

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
CHART = DEPLOY / "helm" / "magnetar"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
BROKERS = ("ewr", "jfk", "lga")
STATE = "/var/lib/magnetar"
USER_ID = "10001"


@cache
def templates() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").iterdir())}


def unit_file(name: str) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a unit of systemd, with the values of each key."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in (DEPLOY / "systemd" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            keys = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            keys.setdefault(key, []).append(value)
    return sections


def settings_of(service: str) -> LoadedSettings:
    environment = COMPOSE["services"][service]["environment"]
    image = {f"{ENVIRONMENT_PREFIX}dataDirectory": STATE}
    return load(None, {**image, **environment}, {})


# --- container image --------------------------------------------------------------------------------------------------


def test_the_image_declares_the_default_ports_and_a_directory_for_data() -> None:
    (ports,) = re.findall(r"^EXPOSE (.*)$", CONTAINERFILE, re.MULTILINE)
    fields = BrokerConfig.model_fields
    assert ports.split() == [str(fields["brokerServicePort"].default), str(fields["webServicePort"].default)]
    (volume,) = re.findall(r"^VOLUME (.*)$", CONTAINERFILE, re.MULTILINE)
    named = dict(re.findall(rf"\b{ENVIRONMENT_PREFIX}(\w+)=(\S+)", CONTAINERFILE))
    assert named == {"dataDirectory": volume}
    assert load(None, {f"{ENVIRONMENT_PREFIX}{key}": value for key, value in named.items()}, {}).ignored == ()


def test_the_image_runs_commands_that_exist_as_an_unprivileged_user() -> None:
    stages = CONTAINERFILE.split("\nFROM ")[1:]
    for stage in (each for each in stages if " AS broker" in each or " AS pipeline" in each):
        assert f"\nUSER {USER_ID}:{USER_ID}\n" in stage
        (command,) = re.findall(r"^CMD (\[.*\])$", stage, re.MULTILINE)
        require_valid(json.loads(command))
    (healthcheck,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    program, *arguments = json.loads(healthcheck)
    assert program == "magnetar"
    require_valid(arguments)


def test_the_image_copies_files_that_exist() -> None:
    copied = re.findall(r"^COPY (?!--)(.*) \S+$", CONTAINERFILE, re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert "src" in names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_image_has_a_python_that_the_package_supports() -> None:
    (version,) = re.findall(r"^ARG BASE_IMAGE=\S+:([\d.]+)-", CONTAINERFILE, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"Programming Language :: Python :: {version}"' in project


# --- compose file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", BROKERS)
def test_a_cluster_of_the_compose_file_has_valid_settings(service: str) -> None:
    loaded, record = settings_of(service), COMPOSE["services"][service]
    config = loaded.config
    assert loaded.ignored == ()
    assert (config.clusterName, config.advertisedAddress) == (service, service)
    # Inside and outside of the containers, lookups must return the same port.
    ports = [config.brokerServicePort, config.webServicePort]
    assert record["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    assert record["environment"]["MAGNETAR_ADMIN_URL"] == f"http://localhost:{config.webServicePort}"
    assert record["volumes"] == [f"{service}:{STATE}"]
    assert record["mem_limit"] == "1g"
    assert config.memoryLimitMB <= 0.8 * 1024


def test_the_compose_file_introduces_all_clusters_and_replicates_between_them() -> None:
    configs = {name: settings_of(name).config for name in BROKERS}
    register = COMPOSE["services"]["register"]
    assert register["command"] == [
        f"{name}={name}:{config.brokerServicePort},{name}:{config.webServicePort}" for name, config in configs.items()
    ]
    command = COMPOSE["services"]["pipeline"]["command"]
    require_valid(command)
    urls = [f"{name}=http://{name}:{config.webServicePort}" for name, config in configs.items()]
    assert command[command.index("--clusters") + 1] == ",".join(urls)
    for mount in register["volumes"]:
        assert (DEPLOY / "compose" / mount.partition(":")[0]).is_file()


def test_the_compose_file_builds_stages_of_the_containerfile() -> None:
    stages = set(re.findall(r"^FROM .* AS (\S+)$", CONTAINERFILE, re.MULTILINE))
    built = [service for service in COMPOSE["services"].values() if "build" in service]
    builds = [service["build"] for service in built]
    assert len(builds) == len(BROKERS) + 1
    for build in builds:
        assert build["target"] in stages
        context = (DEPLOY / "compose" / build["context"]).resolve()
        assert (context / build["dockerfile"]).is_file()
    targets = {
        service["build"]["target"]: service["image"] for service in COMPOSE["services"].values() if "build" in service
    }
    assert targets == {"broker": VALUES["image"]["repository"], "pipeline": VALUES["pipeline"]["image"]["repository"]}


# --- systemd ----------------------------------------------------------------------------------------------------------


def test_the_units_run_commands_that_exist() -> None:
    started = 0
    for name in ("magnetar.service", "magnetar-pipeline.service"):
        service = unit_file(name)["Service"]
        for line in [*service["ExecStart"], *service.get("ExecStartPre", [])]:
            program, *arguments = shlex.split(line)
            assert program == "/opt/magnetar/bin/magnetar"
            require_valid(arguments)
            started += 1
    assert started == 3


def test_the_settings_for_systemd_are_valid_and_fit_the_unit() -> None:
    loaded = load(DEPLOY / "systemd" / "broker.conf", {}, {})
    service = unit_file("magnetar.service")["Service"]
    assert loaded.ignored == ()
    assert str(loaded.config.dataDirectory) == f"/var/lib/{service['StateDirectory'][0]}"
    (limit,) = service["MemoryMax"]
    assert loaded.config.memoryLimitMB <= 0.8 * int(limit.removesuffix("M"))
    assert loaded.config.maxConcurrentConnections < int(service["LimitNOFILE"][0])


def test_the_pipeline_of_systemd_gets_its_clusters_from_its_environment() -> None:
    text = (DEPLOY / "systemd" / "pipeline.env").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if not line.startswith("#"))
    variable, _, clusters = line.partition("=")
    assert list(misspelt_variables(app, {variable: clusters})) == []
    assert f"${{{variable}}}" in unit_file("magnetar-pipeline.service")["Service"]["ExecStart"][0]
    assert [_name_and_url(part, "--clusters")[0] for part in clusters.split(",")] == list(BROKERS)


def test_the_user_of_the_units_is_created() -> None:
    text = (DEPLOY / "systemd" / "magnetar.sysusers.conf").read_text(encoding="utf-8")
    users = re.findall(r"^u (\S+) ", text, re.MULTILINE)
    for name in ("magnetar.service", "magnetar-pipeline.service"):
        assert unit_file(name)["Service"]["User"] == users


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", ["magnetar.service", "magnetar-pipeline.service"])
def test_systemd_accepts_the_units_and_finds_them_well_confined(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
    unit = tmp_path / name
    unit.write_text(
        text.replace("/opt/magnetar/bin/magnetar", sys.executable), encoding="utf-8"
    )  # a program that exists
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    mine = [line for line in verified.stderr.splitlines() if name in line]
    assert mine == []
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)]
    confined = subprocess.run(command, capture_output=True, text=True, check=False)
    assert confined.returncode == 0, confined.stdout


# --- Helm chart -------------------------------------------------------------------------------------------------------


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_default_values_are_valid_settings() -> None:
    given = {f"{ENVIRONMENT_PREFIX}{key}": str(value) for key, value in VALUES["config"].items()}
    config = load(None, given, {}).config
    limit = int(VALUES["resources"]["limits"]["memory"].removesuffix("Mi"))
    assert config.memoryLimitMB <= 0.8 * limit
    fields = BrokerConfig.model_fields
    assert VALUES["ports"] == {"client": fields["brokerServicePort"].default, "admin": fields["webServicePort"].default}


def test_the_chart_sets_only_settings_that_exist_and_forbids_them_in_its_values() -> None:
    written = set(re.findall(r"^ {4}(\w+)=", templates()["configmap.yaml"], re.MULTILINE))
    assert written == {"clusterName", "advertisedAddress", "brokerServicePort", "webServicePort", "dataDirectory"}
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    forbidden = {each["required"][0] for each in schema["properties"]["config"]["not"]["anyOf"]}
    assert written < forbidden
    assert forbidden < BrokerConfig.model_fields.keys()


def test_the_probes_and_the_monitor_use_paths_that_exist() -> None:
    reference = (ROOT / "docs" / "reference" / "rest.md").read_text(encoding="utf-8")
    probed = re.findall(r"path: (/[\w/]+), port: admin", templates()["statefulset.yaml"])
    assert len(probed) == 3
    scraped = re.findall(r"port: admin\n +path: (\S+)", templates()["servicemonitor.yaml"])
    assert len(scraped) == 1
    assert [path for path in [*probed, *scraped] if f"| `{path}` | GET |" not in reference] == []


def test_the_chart_runs_commands_that_exist_and_the_user_of_the_image() -> None:
    (broker,) = re.findall(r"^ +args: \[(.*)\]$", templates()["statefulset.yaml"], re.MULTILINE)
    require_valid(broker.split(", "))
    (pipeline,) = re.findall(r"^ +args:\n((?: +- .*\n)+)", templates()["pipeline.yaml"], re.MULTILINE)
    require_valid(re.sub(r"\{\{.*\}\}", "1", pipeline).replace("- ", "").split())
    assert f"runAsUser: {USER_ID}" in templates()["_helpers.tpl"]
