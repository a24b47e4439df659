"""The compose file without containers: its brokers run as processes, and its container `register` as a shell script.

Ports, host names and directories are replaced, because all processes share one machine. The images and the network of
the containers are not covered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from jsonschema.validators import validator_for

from tests.deploy import tools
from tests.kit.broker import Broker
from tests.kit.child import LOOPBACK

DIRECTORY = Path(__file__).parents[2] / "deploy" / "compose"
SERVICES = yaml.safe_load((DIRECTORY / "compose.yaml").read_text(encoding="utf-8"))["services"]
NAMES = ("ewr", "jfk", "lga")


class Container(Broker):
    """A broker of the compose file as a process."""

    def __init__(self, name: str, directory: Path) -> None:
        """Use the environment of the compose file, except for addresses and directories."""
        super().__init__(directory / name, name)
        given: dict[str, str] = SERVICES[name]["environment"]
        replaced = {
            "brokerServicePort": str(self.binary_port),
            "webServicePort": str(self.web_port),
            "advertisedAddress": LOOPBACK,
            "bindAddress": LOOPBACK,
            "dataDirectory": str(self.directory / "data"),
        }
        self.environment = {**given, **{f"MAGNETAR_{key}": value for key, value in replaced.items()}}
        self.address = f"{name}={LOOPBACK}:{self.binary_port},{LOOPBACK}:{self.web_port}"
        """Its argument of the script."""

    def command(self) -> list[str]:
        """Return the command of the image."""
        return [sys.executable, "-m", self.module, *self.arguments]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return variables with which the command ``magnetar`` is this code."""
    command = tmp_path / "bin" / "magnetar"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m magnetar.cli.main "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_clusters_start_and_know_each_other(tmp_path: Path, environment: dict[str, str]) -> None:
    register = SERVICES["register"]
    ((script, _, _),) = (mount.split(":") for mount in register["volumes"])
    brokers = [Container(name, tmp_path) for name in NAMES]
    with ExitStack() as stack:
        for broker in brokers:
            stack.callback(broker.rest.close)
            stack.callback(broker.stop)
            broker.start()
        command = [register["entrypoint"][0], str(DIRECTORY / script)]
        subprocess.run([*command, *(broker.address for broker in brokers)], env=environment, check=True)
        subprocess.run([*command, brokers[0].address], env=environment, check=True)  # it can be repeated
        for broker in brokers:
            for other in brokers:
                record = broker.rest.get(f"clusters/{other.cluster}")
                assert record["serviceUrl"] == other.admin_url
                assert record["brokerServiceUrl"] == other.service_url
    for broker in brokers:
        broker.require_intact()


@pytest.mark.long
def test_the_file_has_the_format_of_the_specification(tmp_path: Path) -> None:
    schema = tools.compose_schema(tmp_path)
    validator = validator_for(schema)(schema)
    document = yaml.safe_load((DIRECTORY / "compose.yaml").read_text(encoding="utf-8"))
    assert [f"{each.json_path}: {each.message}" for each in validator.iter_errors(document)] == []
    document["services"]["ewr"]["port"] = ["1:1"]  # a misspelt key
    assert not validator.is_valid(document)
