"""Schemas reach the other clusters before the messages that need them, whatever their versions are there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pulsar
from pulsar.schema import AvroSchema, Integer, Record, String

from tests.geo.helpers import wait_for_entries
from tests.kit.clusters import NAMES
from tests.kit.messages import RECEIVE_TIMEOUT_MS, read_log
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from tests.kit.clusters import Up


class Flight(Record):  # type: ignore[misc]  # the client is published without types
    """A record."""

    number = Integer(required=True)


class FlightWithGate(Record):  # type: ignore[misc]
    """The record with one more field."""

    number = Integer(required=True)
    gate = String(required_default=True)


class Airport(Record):  # type: ignore[misc]
    """A record that clashes."""

    code = String(required=True)


FlightWithGate.__name__ = "Flight"  # the name in its definition


def schemas(up: Up, name: str, topic: str) -> list[Any]:
    """The definitions of a cluster, by version."""
    path = topic.replace("persistent://", "schemas/")
    return [json.loads(each["data"]) for each in up.rest(name).get(f"{path}/schemas")["getSchemaResponses"]]


def upload(up: Up, name: str, topic: str, record: Any) -> None:  # noqa: ANN401 - a class of the client
    payload = {"type": "AVRO", "schema": json.dumps(record.schema()), "properties": {}}
    up.rest(name).post(f"{topic.replace('persistent://', 'schemas/')}/schema", payload)


def test_versions_are_those_of_each_cluster(up: Up, topic: str) -> None:
    upload(up, "jfk", topic, FlightWithGate)
    first = up.client("ewr").create_producer(topic, schema=AvroSchema(Flight))
    second = up.client("ewr").create_producer(topic, schema=AvroSchema(FlightWithGate))
    plain = up.client("ewr").create_producer(topic)
    first.send(Flight(number=1))
    second.send(FlightWithGate(number=2, gate="B7"))
    plain.send(b"plain")
    first.send(Flight(number=3))
    wait_for_entries(up, topic, 4, NAMES)
    expected = [Flight.schema(), FlightWithGate.schema(), None, Flight.schema()]
    for name in NAMES:
        known = schemas(up, name, topic)
        versions = [message.schema_version() for message in read_log(up.client(name), topic)]
        assert [known[ord(version[-1])] if version else None for version in versions] == expected
    assert schemas(up, "jfk", topic) == [FlightWithGate.schema(), Flight.schema()]
    assert schemas(up, "lga", topic) == [Flight.schema(), FlightWithGate.schema()]


def test_consumers_elsewhere_read_records(up: Up, topic: str) -> None:
    producer = up.client("ewr").create_producer(topic, schema=AvroSchema(Flight))
    producer.send(Flight(number=7))
    wait_for_entries(up, topic, 1, NAMES)
    earliest = pulsar.InitialPosition.Earliest
    consumer = up.client("lga").subscribe(topic, "s", schema=AvroSchema(Flight), initial_position=earliest)
    assert consumer.receive(RECEIVE_TIMEOUT_MS).value().number == 7


def test_a_clash_parks_the_link_until_it_is_resolved(up: Up, topic: str) -> None:
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    upload(up, "jfk", topic, Airport)
    producer = up.client("ewr").create_producer(topic, schema=AvroSchema(Flight))
    producer.send(Flight(number=1))
    wait_for_entries(up, topic, 1, ("ewr", "lga"))

    def reason() -> str:
        stats = up.rest("ewr").get(f"{topic.replace('://', '/')}/stats")
        return str(stats["replication"]["jfk"].get("parkedReason", ""))

    wait_until(lambda: "is incompatible under the strategy FULL" in reason(), what="a parked link")
    up.rest("jfk").put(f"namespaces/{namespace}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    wait_for_entries(up, topic, 1, NAMES)
    assert schemas(up, "jfk", topic) == [Airport.schema(), Flight.schema()]
