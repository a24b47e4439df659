"""``magnetar pipeline archive`` on a real broker, with messages of the official client."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.guides.page import guide
from tests.jobs.archives import SETTINGS, TIMEOUT_S, command, rows, run
from tests.kit.broker import Broker
from tests.kit.clusters import MAGNETAR
from tests.kit.messages import numbered, publish, publish_in_batches
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pulsar

    from tests.kit.one_process import OneProcess

pytestmark = pytest.mark.timeout(400)

START_TIMEOUT_S = 150.0
"""Time in which Spark starts and archives the first messages, on a busy machine."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("archive"), settings=SETTINGS) as running:
        yield running


def test_an_archive_has_each_message_once_and_continues(
    commands: OneProcess, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    publish_in_batches(client, topic, numbered(1_000), 100)
    first = run(commands, broker, "archive", "--topics", topic, "--directory", str(place), work=tmp_path)
    assert first.status == 0, first.log
    assert (first.report["messages"], first.report["batches"]) == (1_000, 1)
    assert first.report["topics"][0]["topic"] == topic
    assert first.report["topics"][0]["entries"] == 10
    publish(client, topic, numbered(10, first=1_000), batching_enabled=False)
    second = run(commands, broker, "archive", "--topics", topic, "--directory", str(place), work=tmp_path)
    assert (second.status, second.report["messages"]) == (0, 10), second.log
    found = rows(place)
    assert [row["value"] for row in found] == numbered(1_010)
    assert {row["topic"] for row in found} == {topic}
    assert {row["day"] for row in found} == {datetime.fromtimestamp(time.time(), UTC).date().isoformat()}
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.long
def test_a_continuous_archive_that_was_killed_continues(
    broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    place = tmp_path / "archive"
    arguments = ("archive", "--topics-pattern", f"{topic}-.", "--directory", str(place), "--subscription", "archive")
    options = ("--continuous", "--interval-seconds", "1")
    line = [*MAGNETAR, *command(broker, *arguments, *options, work=tmp_path)]
    topics = [f"{topic}-a", f"{topic}-b"]
    publish(client, topics[0], numbered(100), batching_enabled=False)
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True) as process:
        wait_until(lambda: len(rows(place)) == 100, START_TIMEOUT_S, what="the first files")
        publish(client, topics[1], numbered(100), batching_enabled=False)
        publish(client, topics[0], numbered(200, first=100), batching_enabled=False)
        process.kill()
    publish(client, topics[0], numbered(100, first=300), batching_enabled=False)
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: len(rows(place)) == 500, START_TIMEOUT_S, what="all messages")
        process.send_signal(signal.SIGTERM)
        printed, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert json.loads(printed)["directory"] == str(place)
    found = rows(place)
    assert [[row["value"] for row in found if row["topic"] == name] for name in topics] == [
        numbered(400),
        numbered(100),
    ]
    assert list((tmp_path / "work").iterdir()) == []


def test_the_example_of_the_guide_reads_an_archive_with_plain_spark(
    commands: OneProcess, broker: Broker, client: pulsar.Client, tmp_path: Path
) -> None:
    hour_ms = 3_600_000
    producer = client.create_producer("persistent://public/default/flights")
    for number in range(6):
        producer.send(b"flight", event_timestamp=hour_ms * (500_000 + number // 2))
    place = tmp_path / "archive"
    done = run(
        commands,
        broker,
        "archive",
        "--topics",
        "persistent://public/default/flights",
        "--directory",
        str(place),
        work=tmp_path,
    )
    assert done.status == 0, done.log
    (block,) = [block for block in guide("archive").blocks if block.language == "python"]
    text = block.text.replace("/data/archive", str(place))
    found = commands.run_program(
        f"{text}\nprint([row['count'] for row in per_hour.collect()])\nspark.stop()", TIMEOUT_S
    )
    assert (found.status, found.output.splitlines()[-1:]) == (0, ["[2, 2, 2]"]), found.log


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--topics", "a", "--topics-pattern", "public/default/a"), "give one of --topics and --topics-pattern"),
        (("--topics", "persistent://public/default/absent"), "absent"),
    ],
)
def test_a_wrong_selection_is_named(
    commands: OneProcess, broker: Broker, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    found = run(commands, broker, "archive", *arguments, "--directory", str(tmp_path / "archive"), work=tmp_path)
    assert (found.status, found.report) == (1, {})
    assert reason in found.log
