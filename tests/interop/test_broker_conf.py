"""The configuration files that Apache Pulsar is delivered with."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from magnetar.base.java_properties import parse_properties
from magnetar.broker.settings.pulsar_keys import pulsar_keys
from tests.kit.broker import Broker
from tests.kit.messages import connect
from tests.kit.pulsar_conf import stock_configuration
from tests.kit.pulsar_jars import PulsarUnavailableError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop

FILES = ("broker.conf", "standalone.conf")


class StockBroker(Broker):
    """A broker whose file begins with the text of Apache Pulsar's."""

    stock = ""

    def command(self) -> list[str]:
        command = super().command()
        file = self.directory / "broker.conf"
        file.write_text(self.stock + file.read_text())
        return [*command, "--acknowledge-ignored"]


def stock(name: str, directory: Path) -> str:
    try:
        return stock_configuration(name, directory)
    except PulsarUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(400)
def test_the_table_has_each_key_with_its_default(tmp_path: Path) -> None:
    found = parse_properties(stock("broker.conf", tmp_path), "broker.conf")
    assert len(found) > 450
    keys = pulsar_keys()
    assert {name for name in found if keys.find(name) is None} == set()
    assert {name for name, value in found.items() if name in keys.by_name and not _is_same(name, value)} == set()


def _is_same(name: str, value: str) -> bool:
    key = pulsar_keys().by_name[name]
    return key.is_default(value) and bool(value) == bool(key.default)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", FILES)
def test_a_stock_file_is_accepted_without_acknowledgement(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(stock(name, tmp_path))
    command = [sys.executable, "-m", "magnetar.cli.main", "broker", "--check-config", "--config", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stderr.splitlines())) < 160


@pytest.mark.timeout(400)
def test_a_broker_with_the_stock_file_serves_a_client_and_says_little(tmp_path: Path) -> None:
    broker = StockBroker(tmp_path / "broker", "lone")
    broker.stock = f"{stock('broker.conf', tmp_path)}\ntlsEnabled=true\nkinitCommand=s3cret\n"
    with broker:
        client = connect(broker.service_url)
        client.create_producer("persistent://public/default/first").send(b"hello")
        client.close()
        log = broker.process.log.read_text()
    ignored = [line["key"] for line in map(json.loads, log.splitlines()) if line["event"] == "setting_ignored"]
    assert sorted(ignored) == ["kinitCommand", "tlsEnabled"]
    assert "s3cret" not in log
