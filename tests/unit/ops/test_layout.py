from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.broker.settings.loading import load
from magnetar.ops.layout import LOOPBACK, hold, lay_out, pipeline_command, require_free_ports

if TYPE_CHECKING:
    from pathlib import Path


def test_each_cluster_has_its_ports_and_its_directory(tmp_path: Path) -> None:
    ewr, jfk = lay_out(["ewr", "jfk"], tmp_path, 16650)
    assert (ewr.service_url, ewr.admin_url) == ("pulsar://127.0.0.1:16650", "http://127.0.0.1:16651")
    assert (jfk.service_url, jfk.admin_url) == ("pulsar://127.0.0.1:16660", "http://127.0.0.1:16661")
    assert (ewr.directory, jfk.directory) == (tmp_path / "ewr", tmp_path / "jfk")


def test_the_configuration_is_written_in_pulsars_form(tmp_path: Path) -> None:
    (ewr,) = lay_out(["ewr"], tmp_path, 16650)
    command = ewr.broker_command()
    assert command.arguments[-3:] == ["broker", "--config", str(tmp_path / "ewr" / "broker.conf")]
    assert command.log == tmp_path / "logs" / "ewr.log"
    assert (tmp_path / "ewr" / "broker.conf").read_text(encoding="utf-8").splitlines()[1:] == [
        "clusterName=ewr",
        "brokerServicePort=16650",
        "webServicePort=16651",
        "bindAddress=127.0.0.1",
        "advertisedAddress=127.0.0.1",
        f"dataDirectory={tmp_path / 'ewr' / 'data'}",
        "metadataSyncEventTopic=persistent://pulsar/metadata/events",
    ]


@pytest.mark.parametrize("name", ["a b", "a=b", "#a", "a:b!", "é", "a\\tb", "a\\u0041", "a\\", "a\nb\rc"])
def test_a_broker_reads_the_data_directory_that_was_meant(tmp_path: Path, name: str) -> None:
    (ewr,) = lay_out(["ewr"], tmp_path / name, 16650)
    config = load(ewr.write_configuration(), {}, {}).config
    assert config.dataDirectory == tmp_path / name / "ewr" / "data"


def test_the_pipeline_serves_all_clusters(tmp_path: Path) -> None:
    command = pipeline_command(lay_out(["ewr", "jfk"], tmp_path, 16650))
    assert "ewr=http://127.0.0.1:16651,jfk=http://127.0.0.1:16661" in command.arguments


def test_the_pipeline_runs_on_another_spark(tmp_path: Path) -> None:
    command = pipeline_command(lay_out(["ewr", "jfk"], tmp_path, 16650), ["--master", "spark://localhost:7077"])
    assert list(command.arguments[-2:]) == ["--master", "spark://localhost:7077"]


@pytest.mark.parametrize(
    ("names", "base_port", "what"),
    [
        ([], 16650, "0 clusters"),
        (["a", "b", "a"], 16650, "named twice: a,b,a"),
        (["a/b"], 16650, "'a/b'"),
        (["logs"], 16650, "'logs'"),
        (["a", "b"], 65530, "lower --base-port"),
    ],
)
def test_refuses_what_cannot_be(tmp_path: Path, names: list[str], base_port: int, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        lay_out(names, tmp_path, base_port)


def test_names_the_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port {port} \(binary protocol of ewr\)"):
            require_free_ports(lay_out(["ewr"], tmp_path, port))


def test_a_directory_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    refused = pytest.raises(ConfigurationError, match=r"in use by another magnetar up \(process \d+\)")
    with hold(tmp_path), refused, hold(tmp_path):
        pass
    with hold(tmp_path):
        pass


def test_a_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigurationError, match=r"cannot use the directory .*/file: File exists"), hold(file):
        pass
