"""``magnetar pipeline restore`` on a real broker."""

from __future__ import annotations

import base64
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from pulsar.schema import AvroSchema, Integer, Record, String

from magnetar.base.position import Position
from magnetar.spark import MagnetarDataSource, columns
from magnetar.wire.entries.batch import BatchedMessage, encode_batch
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.jobs.archives import SETTINGS, command, run
from tests.kit.clusters import MAGNETAR
from tests.kit.forging_broker import ForgingBroker
from tests.kit.messages import numbered, publish_in_batches
from tests.kit.wait import wait_until
from tests.spark.queries import addresses, publish_entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pulsar

    from tests.kit.broker import Broker
    from tests.kit.one_process import OneProcess

pytestmark = pytest.mark.timeout(500)

PUBLISHED_MS = 1_700_000_000_000
COUNT = 80_000
START_TIMEOUT_S = 150.0

RESTORED = (
    columns.VALUE,
    columns.KEY,
    columns.HAS_BASE64_KEY,
    columns.ORDERING_KEY,
    columns.PROPERTIES,
    columns.EVENT_TIME,
    columns.PUBLISH_TIME,
    columns.DELIVER_AT_TIME,
    columns.REPLICATE_TO,
)


class Flight(Record):  # type: ignore[misc]  # the client is published without types
    """A record."""

    number = Integer(required=True)


class FlightWithGate(Record):  # type: ignore[misc]
    """The record with one more field."""

    number = Integer(required=True)
    gate = String(required_default=True)


FlightWithGate.__name__ = "Flight"  # the name in its definition


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with ForgingBroker(tmp_path_factory.mktemp("restore"), settings=SETTINGS) as running:
        yield running


def log(broker: Broker, topic: str, *names: str) -> list[dict[str, Any]]:
    """Return columns of the messages of a topic, in the order of its log."""
    reader = MagnetarDataSource({**addresses(broker), "topic": topic}).reader(columns.all_columns())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.select(list(names)).to_pylist()]


def values(broker: Broker, topic: str) -> list[bytes]:
    return [row[columns.VALUE] for row in log(broker, topic, columns.VALUE)]


def schemas(broker: Broker, topic: str) -> list[Any]:
    """Return the definition of the schema of each message, in the order of the log."""
    path = topic.replace("persistent://", "schemas/")
    known = [json.loads(each["data"]) for each in broker.rest.get(f"{path}/schemas")["getSchemaResponses"]]
    return [known[row[columns.SCHEMA_VERSION][-1]] for row in log(broker, topic, columns.SCHEMA_VERSION)]


def entries() -> list[bytes]:
    """Return entries with all metadata that a message can have."""
    plain = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=PUBLISHED_MS, partition_key="text")
    bytes_key = pb.MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=PUBLISHED_MS - 5_000,
        partition_key=base64.b64encode(b"\xff\x00").decode(),
        partition_key_b64_encoded=True,
        ordering_key=b"order",
        event_time=PUBLISHED_MS - 1,
        deliver_at_time=PUBLISHED_MS + 1,
        replicate_to=["elsewhere"],
        null_value=True,
    )
    bytes_key.properties.add(key="colour", value="red")
    batch = pb.MessageMetadata(producer_name="p", sequence_id=2, publish_time=PUBLISHED_MS + 1, num_messages_in_batch=2)
    own = [pb.SingleMessageMetadata(partition_key="a", event_time=7), pb.SingleMessageMetadata(null_value=True)]
    payload = encode_batch([BatchedMessage(own[0], b"first"), BatchedMessage(own[1], b"")])
    copied = build_entry(pb.MessageMetadata(producer_name="p", sequence_id=4, publish_time=PUBLISHED_MS), b"copied")
    return [
        build_entry(plain, b"plain"),
        build_entry(bytes_key, b""),
        build_entry(batch, payload),
        stamp(copied, Origin("jfk", Position(3, 4))),
    ]


def test_restored_messages_have_the_metadata_and_the_order_of_the_archived_ones(
    commands: OneProcess, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    place, copy = str(tmp_path / "archive"), f"{topic}-copy"
    publish_entries(broker, topic, entries())
    parts = f"{topic}-parts"
    for name in (parts, f"{parts}-copy"):
        broker.rest.put(f"persistent/{name.partition('://')[2]}/partitions", 2)
    for index in range(2):
        publish_in_batches(client, f"{parts}-partition-{index}", numbered(500, first=1_000 * index), 50)
    typed = f"{topic}-typed"
    for flight in (Flight(number=1), FlightWithGate(number=2, gate="B7")):
        client.create_producer(typed, schema=AvroSchema(type(flight))).send(flight)
    archived = run(
        commands, broker, "archive", "--topics", f"{topic},{parts},{typed}", "--directory", place, work=tmp_path
    )
    assert archived.status == 0, archived.log
    # The target gives other versions to the schemas.
    client.create_producer(f"{typed}-copy", schema=AvroSchema(FlightWithGate)).close()
    to = f"{topic}={copy},{parts}={parts}-copy,{typed}={typed}-copy"
    arguments = ("restore", "--directory", place, "--to", to)
    done = run(commands, broker, *arguments, work=tmp_path)
    assert (done.status, done.report.get("messages")) == (0, 1_007), done.log
    found = log(broker, copy, *RESTORED)
    assert found == log(broker, topic, *RESTORED)
    assert [row[columns.KEY] for row in found] == [b"text", b"\xff\x00", b"a", None, None]
    assert {row[columns.ORIGIN_CLUSTER] for row in log(broker, copy, columns.ORIGIN_CLUSTER)} == {None}
    for index in range(2):
        assert values(broker, f"{parts}-copy-partition-{index}") == numbered(500, first=1_000 * index)
    assert schemas(broker, f"{typed}-copy") == schemas(broker, typed) == [Flight.schema(), FlightWithGate.schema()]
    again = run(commands, broker, *arguments, work=tmp_path)
    assert (again.status, again.report.get("messages")) == (0, 0), again.log
    assert [each["restoredBefore"] for each in again.report["topics"]] == [5, 500, 500, 2]
    other = run(commands, broker, *arguments, "--start-time", "2023-01-01", work=tmp_path)
    assert (other.status, other.report) == (1, {})
    assert f"{copy} has messages" in other.log
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.long  # make test-chaos kills workers, too
def test_a_restoration_that_was_killed_continues(
    commands: OneProcess, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    place, copy = str(tmp_path / "archive"), f"{topic}-copy"
    publish_in_batches(client, topic, numbered(COUNT), 1_000)
    archived = run(commands, broker, "archive", "--topics", topic, "--directory", place, work=tmp_path)
    assert (archived.status, archived.report.get("messages")) == (0, COUNT), archived.log
    client.create_producer(copy).close()
    arguments = ("restore", "--directory", place, "--to", copy)

    def restored() -> int:
        return int(broker.rest.get(f"persistent/{copy.partition('://')[2]}/stats")["msgInCounter"])

    line = [*MAGNETAR, *command(broker, *arguments, work=tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: restored() > 0, START_TIMEOUT_S, what="the first messages")
        process.kill()
    done = run(commands, broker, *arguments, work=tmp_path)
    assert done.status == 0, done.log
    (each,) = done.report["topics"]
    assert 0 < each["restoredBefore"] < COUNT, "the first run was killed in between"
    assert each["restoredBefore"] + done.report["messages"] == COUNT
    assert values(broker, copy) == numbered(COUNT)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--start-time", "yesterday"), "--start-time: 'yesterday' is not a time"),
        (("--compression", "RAR"), "--compression: 'RAR' is not one of NONE, LZ4"),
        ((), "is no archive"),
    ],
)
def test_a_wrong_argument_is_named(
    commands: OneProcess, broker: Broker, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    found = run(commands, broker, "restore", "--directory", str(tmp_path / "none"), *arguments, work=tmp_path)
    assert (found.status, found.report) == (1, {})
    assert reason in found.log
