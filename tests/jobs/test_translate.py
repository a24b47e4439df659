"""``magnetar pipeline translate`` between brokers without a link."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.position import Position
from tests.guides.page import guide
from tests.guides.shell import require_output
from tests.jobs.logs import PER_BATCH, acknowledge, entry, publish
from tests.kit.broker import Broker
from tests.kit.clusters import MAGNETAR

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.one_process import OneProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

COUNT = 3_000
TIMEOUT_S = 300.0


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, Broker]]:
    keep = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    with Broker(tmp_path / "one", "one", keep) as one, Broker(tmp_path / "two", "two", keep) as two:
        yield {"one": one, "two": two}


def command(brokers: dict[str, Broker], topic: str, work: Path) -> list[str]:
    """Return the arguments of ``magnetar``."""
    one, two = (f"{name}={broker.admin_url}" for name, broker in brokers.items())
    options = ["--from", one, "--to", two, "--topics", topic, "--subscriptions", "s", "--state", str(work / "state")]
    options += ["--master", "local[2]", "--work-dir", str(work / "work"), "--apply", "--output", "json"]
    return ["pipeline", "translate", *options]


def state_of(broker: Broker, topic: str) -> dict[str, Any]:
    path = f"persistent/{topic.partition('://')[2]}/subscription/s/acknowledgements"
    found: dict[str, Any] = broker.rest.get(path)
    return found


def test_an_interrupted_translation_continues_and_batches_keep_their_rest(
    commands: OneProcess, brokers: dict[str, Broker], topic: str, tmp_path: Path
) -> None:
    entries = [entry(number) for number in range(COUNT)]
    places = publish(brokers["one"], topic, entries)
    copies = dict(enumerate(reversed(publish(brokers["two"], topic, reversed(entries)))))
    done = dict.fromkeys(range(0, COUNT, 3), 0) | {4: 0b0111, 2_500: 0b0001}
    acknowledge(brokers["one"], topic, "s", [(places[number], bits) for number, bits in done.items()])
    words = command(brokers, topic, tmp_path)
    with subprocess.Popen([*MAGNETAR, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"translate"' in line:
                os.kill(process.pid, signal.SIGINT)
                break
        _, rest = process.communicate(timeout=TIMEOUT_S)
    said = json.loads(rest.splitlines()[-1])
    assert (process.returncode, said["error"]) == (1, "interrupted"), rest
    completed = commands.run(words, TIMEOUT_S)
    assert completed.status == 0, completed.log
    report = json.loads(completed.output)
    (state,) = report["subscriptions"]
    assert (state["applied"], state["undecided"], state["unacknowledged"]) == (True, 0, COUNT - COUNT // 3)
    assert state["batches"] == {str(copies[number]): [bits] for number, bits in ((4, 0b0111), (2_500, 0b0001))}
    (counts,) = report["topics"]
    assert (counts["mapped"], report["ambiguous"]) == (COUNT, [])
    found = state_of(brokers["two"], topic)
    assert found["batches"] == state["batches"]
    mark = Position.parse(found["markDeletePosition"])
    acknowledged = {
        Position(ledger, each) for ledger, first, last in found["ranges"] for each in range(first, last + 1)
    }
    acknowledged |= {place for place in copies.values() if place <= mark}
    assert acknowledged == {copies[number] for number, bits in done.items() if not bits}
    assert PER_BATCH == 4, "the bits above are of four messages"


def test_the_example_of_the_guide_names_an_ambiguous_message(
    commands: OneProcess, brokers: dict[str, Broker], tmp_path: Path
) -> None:
    topic = "persistent://public/default/flights"
    places = publish(brokers["one"], topic, [entry(number) for number in (0, 1, 2, 3, 4, 5, 5, 6)])
    copies = publish(brokers["two"], topic, [entry(number) for number in (0, 1, 2, 5, 5, 6, 3, 4)])
    acknowledge(brokers["one"], topic, "s", [(place, 0) for place in places[:6]])
    (example,) = (command for block in guide("translate").blocks for command in block.commands() if command.output)
    text = example.text
    for url, name in (("http://127.0.0.1:8080", "one"), ("http://127.0.0.1:8090", "two")):
        text = text.replace(url, brokers[name].admin_url)
    done = commands.run([*shlex.split(text)[1:], "--master", "local[2]", "--work-dir", str(tmp_path)], TIMEOUT_S)
    assert done.status == 0, done.log
    expected = "\n".join(example.output)
    for ledger, place in (("1764213541000", places[0]), ("1764213551000", copies[0])):
        expected = expected.replace(ledger, str(place.ledger_id))
    require_output(text, done.output + done.log, expected)
