"""The pipeline replicates between Magnetar and Apache Pulsar, and between two Apache Pulsars."""

from __future__ import annotations

import json
import secrets
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pulsar.schema
import pytest

from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.geo.helpers import own_properties
from tests.interop.conftest import has_messages, wait_until_carried
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.messages import numbered, publish, publish_in_batches, read_log, receive
from tests.kit.pulsar import MixedClusters, PulsarClusters
from tests.kit.raw import RawConnection
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kit.clusters import Group

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * UP_TIMEOUT_S)]

NAMESPACE = "interop/carried"
NAMES = ("ewr", "apache", "other")
EARLIEST = {"initial_position": pulsar.InitialPosition.Earliest}
QUIET_S = 3.0
"""Time in which a circulating message would arrive."""


@pytest.fixture(scope="module")
def carried(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedClusters]:
    """One Magnetar and two Apache Pulsars that do not replicate by themselves."""
    with MixedClusters(tmp_path_factory.mktemp("carried"), magnetar=("ewr",), apache=("apache", "other")) as running:
        running.make_carried_namespace(NAMESPACE)
        running.start_pipeline()
        wait_until_carried(running, f"persistent://{NAMESPACE}/first")
        yield running


@pytest.fixture
def topic(carried: MixedClusters) -> str:
    """A topic with infinite retention in every cluster."""
    name = f"persistent://{NAMESPACE}/{secrets.token_hex(4)}"
    for cluster in carried.members:
        carried.client(cluster).subscribe(name, "keeps the log").close()
    return name


def logs(clusters: Group, topic: str) -> dict[str, list[pulsar.Message]]:
    return {name: read_log(clusters.client(name), topic) for name in clusters.members}


def wait_for_logs(clusters: Group, topic: str, count: int) -> dict[str, list[pulsar.Message]]:
    """Return the logs when each has ``count`` messages and no more arrive."""
    wait_until(lambda: all(len(log) >= count for log in logs(clusters, topic).values()), 60, what=f"{count} in {topic}")
    assert holds_for(lambda: all(len(log) == count for log in logs(clusters, topic).values()), QUIET_S, interval_s=0.5)
    return logs(clusters, topic)


def test_every_log_holds_every_message_once_in_its_origins_order(carried: MixedClusters, topic: str) -> None:
    for number, name in enumerate(NAMES):
        publish(carried.client(name), topic, numbered(100, first=1000 * number))
        publish_in_batches(carried.client(name), topic, numbered(100, first=1000 * number + 100), per_batch=30)
    for log in wait_for_logs(carried, topic, 600).values():
        for number in range(len(NAMES)):
            of_origin = [message.data() for message in log if int(message.data()) // 1000 == number]
            assert of_origin == numbered(200, first=1000 * number)


@pytest.mark.parametrize("source", NAMES)
def test_all_parts_of_a_message_are_kept(carried: MixedClusters, topic: str, source: str) -> None:
    client = carried.client(source)
    plain = client.create_producer(topic, producer_name="tower", batching_enabled=False)
    plain.send(b"x", properties={"gate": "B7"}, partition_key="N123", ordering_key="order", event_timestamp=1_234_567)
    packed = client.create_producer(
        topic, producer_name="packer", batching_enabled=False, compression_type=pulsar.CompressionType.ZSTD
    )
    packed.send(b"y" * 10_000, properties={"gate": "C1"})
    found = wait_for_logs(carried, topic, 2)
    for log in found.values():
        for copy, original in zip(log, found[source], strict=True):
            assert own_properties(copy) == own_properties(original)
            for get in ("data", "partition_key", "ordering_key", "event_timestamp", "publish_timestamp"):
                assert getattr(copy, get)() == getattr(original, get)(), get
            assert copy.producer_name() == original.producer_name()


@pytest.mark.parametrize("source", NAMES)
def test_an_encrypted_message_arrives_encrypted(
    carried: MixedClusters, topic: str, source: str, tmp_path: Path
) -> None:
    secret, public = tmp_path / "secret.pem", tmp_path / "public.pem"
    for command in (
        ["openssl", "genrsa", "-out", str(secret), "2048"],
        ["openssl", "rsa", "-in", str(secret), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True)
    keys = pulsar.CryptoKeyReader(str(public), str(secret))
    producer = carried.client(source).create_producer(topic, encryption_key="key", crypto_key_reader=keys)
    producer.send(b"nobody's business")
    for name in NAMES:
        reader = carried.client(name).subscribe(topic, "knows the key", crypto_key_reader=keys, **EARLIEST)
        assert receive(reader, 1)[0].data() == b"nobody's business"


@pytest.mark.parametrize("source", NAMES)
def test_a_message_may_stay_at_home(carried: MixedClusters, topic: str, source: str) -> None:
    producer = carried.client(source).create_producer(topic, batching_enabled=False)
    producer.send(b"home", disable_replication=True)
    producer.send(b"chosen", replication_clusters=["ewr", "other"])
    producer.send(b"abroad")
    expected = {name: [b"abroad"] if name == "apache" else [b"chosen", b"abroad"] for name in NAMES}
    expected[source] = [b"home", b"chosen", b"abroad"]

    def found() -> dict[str, list[bytes]]:
        return {name: [message.data() for message in log] for name, log in logs(carried, topic).items()}

    wait_until(lambda: found() == expected, 60, what=f"{expected} (there is {found()})")


def test_the_sources_forget_what_was_carried(carried: MixedClusters, topic: str) -> None:
    for name in NAMES:
        publish(carried.client(name), topic, numbered(50))
    wait_for_logs(carried, topic, 150)

    def backlogs() -> dict[str, int]:
        return {
            f"{name} {subscription}": stats["msgBacklog"]
            for name in ("apache", "other")
            for subscription, stats in carried.rest(name).stats(topic)["subscriptions"].items()
            if subscription.startswith("magnetar.repl.")
        }

    wait_until(lambda: set(backlogs().values()) == {0}, what="every replication cursor at the end")
    assert len(backlogs()) == 4


def test_unsupported_features_are_reported(carried: MixedClusters, topic: str) -> None:
    carried.client("ewr").subscribe(topic, "moves", replicate_subscription_state_enabled=True)

    def unavailable() -> dict[str, str]:
        return carried.rest("ewr").stats(topic)["subscriptions"]["moves"].get("progressUnavailable") or {}

    wait_until(lambda: set(unavailable()) == {"apache", "other"}, what="the clusters without exact progress")
    assert all("takes no progress markers" in reason for reason in unavailable().values())
    carried.client("ewr").subscribe(f"{topic}-2", "moves", replicate_subscription_state_enabled=True)
    log = carried.brokers["ewr"].process.log.read_text() + carried.brokers["ewr"].process.output.read_text()
    assert log.count("exact_progress_unavailable") == 2, "once for each of the two"


def test_topics_replicated_by_apache_pulsar_are_not_carried_too(carried: MixedClusters) -> None:
    namespace = "interop/itself"
    carried.make_namespace(namespace, ["ewr", "apache"])
    name = f"persistent://{namespace}/t"
    for cluster in ("ewr", "apache"):
        carried.client(cluster).subscribe(name, "keeps the log").close()
    publish(carried.client("apache"), name, numbered(20))
    wait_until(lambda: len(read_log(carried.client("ewr"), name)) == 20, 60, what="what its replicator pushes")
    subscriptions = carried.rest("apache").stats(name)["subscriptions"]
    assert set(subscriptions) == {"keeps the log"}


def test_between_two_apache_pulsars_kills_lose_and_repeat_nothing(peer: None, tmp_path: Path) -> None:
    with PulsarClusters(tmp_path, ("one", "two")) as pair:
        pair.make_carried_namespace(NAMESPACE)
        pair.start_pipeline("--namespaces", NAMESPACE)
        wait_until_carried(pair, f"persistent://{NAMESPACE}/first")
        name = f"persistent://{NAMESPACE}/t"
        for cluster in pair.members:
            pair.client(cluster).subscribe(name, "keeps the log").close()
        count = 0
        kills: list[Callable[[], None]] = [pair.kill_pipeline, pair.pulsars["two"].restart, pair.kill_worker]
        for kill in kills:
            for cluster in pair.members:
                producer = pair.client(cluster).create_producer(name, batching_enabled=False, block_if_queue_full=True)
                for payload in numbered(2_000, first=count):
                    producer.send_async(b"%s-%s" % (cluster.encode(), payload), lambda *_: None)
                producer.flush()
                producer.close()
            count += 2_000
            kill()
            if kill == pair.kill_pipeline:
                pair.start_pipeline("--namespaces", NAMESPACE)
        for cluster in pair.members:
            has_all = partial(has_messages, pair, cluster, name, 2 * count)
            wait_until(has_all, UP_TIMEOUT_S, what=f"all messages in {cluster}", interval_s=1.0)
        for cluster, log in wait_for_logs(pair, name, 2 * count).items():
            for origin in pair.members:
                of_origin = [m.data() for m in log if m.data().startswith(origin.encode())]
                assert of_origin == [b"%s-%d" % (origin.encode(), number) for number in range(count)], cluster


class Flight(pulsar.schema.Record):  # type: ignore[misc]  # the client is published without types
    """A record."""

    number = pulsar.schema.Integer(required=True)


class FlightWithGate(pulsar.schema.Record):  # type: ignore[misc]
    """The record with one more field."""

    number = pulsar.schema.Integer(required=True)
    gate = pulsar.schema.String(required_default=True)


FlightWithGate.__name__ = "Flight"  # the name in its definition


def test_schemas_come_with_the_messages(carried: MixedClusters, topic: str) -> None:
    path = topic.replace("persistent://", "schemas/")
    upload = {"type": "AVRO", "schema": json.dumps(FlightWithGate.schema()), "properties": {}}
    carried.rest("other").post(f"{path}/schema", upload)
    expected: dict[int, object] = {}
    for name in ("ewr", "apache"):
        for record in (Flight, FlightWithGate):
            producer = carried.client(name).create_producer(topic, schema=pulsar.schema.AvroSchema(record))
            producer.send(record(number=len(expected)))
            expected[len(expected)] = record.schema()
            wait_for_logs(carried, topic, len(expected))
    for name, log in wait_for_logs(carried, topic, len(expected)).items():
        known = [json.loads(each["data"]) for each in carried.rest(name).get(f"{path}/schemas")["getSchemaResponses"]]
        found = {message.data()[0] // 2: known[ord(message.schema_version()[-1])] for message in log}
        assert found == expected, name


def test_a_schema_of_a_type_that_apache_pulsar_does_not_know_parks_its_topic_alone(
    carried: MixedClusters, topic: str
) -> None:
    """Apache Pulsar 4.0 closes the connection on it."""
    external = pb.Schema(name="", schema_data=b"", type=pb.Schema.External)
    with RawConnection.connected(carried.members["ewr"].service_url) as raw:
        version = raw.create_producer(topic, schema=external).schema_version
        metadata = pb.MessageMetadata(
            producer_name="raw", sequence_id=0, publish_time=1_000_000_000_000, schema_version=version
        )
        raw.send("SEND", build_entry(metadata, b"x"), producer_id=1, sequence_id=0)
        raw.expect("SEND_RECEIPT")

    def is_parked() -> bool:
        links = carried.rest("ewr").stats(topic)["replication"]
        return all("schema of entry" in links[name].get("parkedReason", "") for name in ("apache", "other"))

    wait_until(is_parked, 60, what="parked links", interval_s=0.5)
    beside = f"{topic}-beside"
    for name in carried.members:
        carried.client(name).subscribe(beside, "keeps the log").close()
    publish(carried.client("ewr"), beside, numbered(50))
    wait_for_logs(carried, beside, 50)
    assert is_parked()
