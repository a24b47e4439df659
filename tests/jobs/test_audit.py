"""``magnetar pipeline audit`` on real brokers."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.guides.page import guide
from tests.guides.shell import require_output
from tests.jobs.logs import (
    AUDIT_TIMEOUT_S,
    PER_BATCH,
    acknowledge,
    audit,
    audit_command,
    entry,
    publish,
    stamped,
)
from tests.kit.broker import Broker
from tests.kit.clusters import MAGNETAR
from tests.kit.forging_broker import ForgingBroker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.one_process import OneProcess

pytestmark = pytest.mark.timeout(400)

COUNT = 3_000
ALL = (1 << PER_BATCH) - 1


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Broker]]:
    keep = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    place = tmp_path_factory.mktemp("audit")
    with Broker(place / "ewr", "ewr", keep) as ewr, ForgingBroker(place / "jfk", "jfk", keep) as jfk:
        yield {"ewr": ewr, "jfk": jfk}


def test_every_fault_is_named_and_a_later_audit_reads_new_entries_only(
    commands: OneProcess, clusters: dict[str, Broker], topic: str, tmp_path: Path
) -> None:
    entries = [entry(number) for number in range(COUNT)]
    places = publish(clusters["ewr"], topic, entries)
    log = stamped(entries, places)
    log[10] = stamped([entry(10, b"delays")], [places[10]])[0]
    log[20], log[21] = log[21], log[20]
    log.insert(2_000, log[30])
    del log[40]
    copied = publish(clusters["jfk"], topic, log[: COUNT - 5])
    state, table = str(tmp_path / "state"), tmp_path / "findings"
    found = audit(commands, clusters, "--topics", topic, "--state", state, "--findings", str(table), work=tmp_path)
    assert found.status == 1, found.log
    assert found.findings() == [
        ("altered", "jfk", str(places[10]), 1),
        ("lost", "jfk", str(places[40]), 1),
        ("reordered", "jfk", str(places[20]), 1),
        ("reordered", "jfk", str(places[21]), 1),
        ("repeated", "jfk", str(places[30]), 1),
    ]
    assert found.report["verdict"] == "different"
    assert found.report["entriesRead"] == COUNT + len(copied)
    assert found.counts("notComparable") == {"ewr": 0, "jfk": 5}, "without a link nothing is in flight"
    (repeated,) = [each for each in found.report["findings"] if each["kind"] == "repeated"]
    assert repeated["position"] == str(copied[1_999])
    assert pq.read_table(table).num_rows == 5
    publish(clusters["jfk"], topic, log[COUNT - 5 :])
    later = audit(commands, clusters, "--topics", topic, "--state", state, work=tmp_path)
    assert (later.status, later.findings()) == (1, found.findings()), later.log
    assert later.report["entriesRead"] == len(log) - len(copied)
    assert later.counts("notComparable") == {"ewr": 0, "jfk": 0}
    assert [path.name for path in (tmp_path / "state").glob("scan-*")] == ["scan-00003"], "of both audits"


def test_every_disagreement_about_acknowledgements_is_named(
    commands: OneProcess, clusters: dict[str, Broker], topic: str, tmp_path: Path
) -> None:
    entries = [entry(number) for number in range(COUNT)]
    places = publish(clusters["ewr"], topic, entries)
    copied = publish(clusters["jfk"], topic, stamped(entries, places))
    done = [number for number in range(COUNT) if number % 3]
    of_ewr = {number: 0 for number in done if number != 7} | {3: 0b0111, 6: 0b0011, 9: 0b0001}
    of_jfk = {number: 0 for number in done if number != 2_000} | {3: 0b0111, 6: 0b1100, 12: 0b0001}
    acknowledge(clusters["ewr"], topic, "s", [(places[number], bits) for number, bits in of_ewr.items()])
    acknowledge(clusters["jfk"], topic, "s", [(copied[number], bits) for number, bits in of_jfk.items()])
    acknowledge(clusters["ewr"], topic, "only-ewr", [])
    found = audit(commands, clusters, "--topics", topic, work=tmp_path)
    assert found.status == 1, found.log
    assert found.findings() == [
        ("no subscription", "jfk", None, None),
        ("partly acknowledged", "ewr", str(places[12]), 1),
        ("partly acknowledged", "ewr", str(places[6]), 1),
        ("partly acknowledged", "jfk", str(places[6]), 1),
        ("partly acknowledged", "jfk", str(places[9]), 1),
        ("unacknowledged", "ewr", str(places[7]), 1),
        ("unacknowledged", "jfk", str(places[2_000]), 1),
    ]


def test_the_example_of_the_guide_names_a_lost_entry(
    commands: OneProcess, clusters: dict[str, Broker], tmp_path: Path
) -> None:
    topic = "persistent://public/default/flights"
    entries = [entry(number) for number in range(6)]
    places = publish(clusters["ewr"], topic, entries)
    log = stamped(entries, places)
    publish(clusters["jfk"], topic, log[:3] + log[4:])
    example, program = [block for block in guide("audit").blocks if topic in block.text or block.language == "python"]
    (command,) = example.commands()
    urls = {"http://127.0.0.1:8080": clusters["ewr"].admin_url, "http://127.0.0.1:8090": clusters["jfk"].admin_url}
    text = command.text.replace(" found", f" {tmp_path}/found")
    for old, new in urls.items():
        text = text.replace(old, new)
    done = commands.run([*shlex.split(text)[1:], "--master", "local[2]", "--work-dir", str(tmp_path)], AUDIT_TIMEOUT_S)
    assert done.status == 1, done.log
    expected = "\n".join(command.output).replace("1764213551000:3", str(places[3]))
    require_output(text, done.output + done.log, expected)
    names: dict[str, Any] = {}
    exec(program.text.replace('"found"', f'"{tmp_path}/found"'), names)
    (lost,) = names["lost"]
    place = {"origin": "ewr", "origin_ledger": places[3].ledger_id, "origin_entry": places[3].entry_id}
    assert lost == {"topic": topic, "cluster": "jfk", **place, "count": 1}


@pytest.mark.long
def test_an_interrupted_audit_continues(
    commands: OneProcess, clusters: dict[str, Broker], topic: str, tmp_path: Path
) -> None:
    entries = [entry(number) for number in range(COUNT)]
    places = publish(clusters["ewr"], topic, entries)
    publish(clusters["jfk"], topic, stamped(entries, places))
    arguments = ("--topics", topic, "--state", str(tmp_path / "state"))
    command = [*MAGNETAR, *audit_command(clusters, *arguments, work=tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"audit"' in line:
                os.kill(process.pid, signal.SIGINT)
                break
        _, rest = process.communicate(timeout=100)
    said = json.loads(rest.splitlines()[-1])
    assert (process.returncode, said["exitCode"], said["error"]) == (4, 4, "interrupted"), rest
    found = audit(commands, clusters, *arguments, work=tmp_path)
    assert (found.status, found.report["verdict"], found.findings()) == (0, "equal", []), found.log
    assert found.counts("compared") == {"ewr": COUNT, "jfk": COUNT}
    assert list((tmp_path / "work").iterdir()) == []


def test_the_directory_of_another_audit_is_refused(
    commands: OneProcess, clusters: dict[str, Broker], topic: str, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "file").touch()
    publish(clusters["ewr"], topic, [entry(0)])
    found = audit(commands, clusters, "--topics", topic, "--state", str(tmp_path / "state"), work=tmp_path)
    assert (found.status, found.report) == (1, {})
    assert "neither empty nor the directory of an earlier audit" in found.log
