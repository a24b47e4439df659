"""Schemas: those of the client work from end to end, evolve, and clash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, BytesSchema, Integer, JsonSchema, Record, String, StringSchema

from tests.kit.messages import RECEIVE_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.broker import Broker


class Flight(Record):  # type: ignore[misc]  # the client is published without types
    """A record with two fields."""

    tail_number = String()
    minutes_late = Integer()


class FlightWithGate(Record):  # type: ignore[misc]
    """A record with one more field."""

    tail_number = String()
    minutes_late = Integer()
    gate = String(required_default=True)


class FlightWithText(Record):  # type: ignore[misc]
    """A record with another type of a field."""

    tail_number = String()
    minutes_late = String()


class Airport(Record):  # type: ignore[misc]
    """Another record."""

    code = String(required=True)


FlightWithGate.__name__ = FlightWithText.__name__ = "Flight"  # the name in their definitions
FIRST_VERSION = "\0" * 8


@pytest.mark.parametrize("make", [JsonSchema, AvroSchema])
def test_records(client: pulsar.Client, topic: str, make: Callable[[Any], Any]) -> None:
    consumer = client.subscribe(topic, "s", schema=make(Flight))
    producer = client.create_producer(topic, schema=make(Flight))
    producer.send(Flight(tail_number="N14228", minutes_late=11))
    message = consumer.receive(RECEIVE_TIMEOUT_MS)
    assert (message.value().tail_number, message.value().minutes_late) == ("N14228", 11)
    assert message.schema_version() == FIRST_VERSION


def test_string_schema(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=StringSchema())
    client.create_producer(topic, schema=StringSchema()).send("naïve")
    assert consumer.receive(RECEIVE_TIMEOUT_MS).value() == "naïve"


def test_bytes_have_no_schema(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=BytesSchema())
    client.create_producer(topic, schema=BytesSchema()).send(b"bytes")
    message = consumer.receive(RECEIVE_TIMEOUT_MS)
    assert (message.value(), message.schema_version()) == (b"bytes", "")


def test_reader_without_a_schema_sees_the_bytes(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=StringSchema()).send("bytes")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert reader.read_next(RECEIVE_TIMEOUT_MS).data() == b"bytes"


@pytest.mark.parametrize("make", [JsonSchema, AvroSchema])
def test_a_schema_evolves(client: pulsar.Client, topic: str, make: Callable[[Any], Any]) -> None:
    consumer = client.subscribe(topic, "s")
    first = client.create_producer(topic, schema=make(Flight))
    second = client.create_producer(topic, schema=make(FlightWithGate))
    first.send(Flight(tail_number="N1"))
    second.send(FlightWithGate(tail_number="N2", gate="B12"))
    first.send(Flight(tail_number="N3"))
    versions = [consumer.receive(RECEIVE_TIMEOUT_MS).schema_version() for _ in range(3)]
    assert versions == [FIRST_VERSION, f"{FIRST_VERSION[:-1]}\1", FIRST_VERSION]


@pytest.mark.parametrize("make", [JsonSchema, AvroSchema])
def test_a_clash_is_refused(client: pulsar.Client, topic: str, make: Callable[[Any], Any]) -> None:
    client.create_producer(topic, schema=make(Flight))
    for clashing in (make(Airport), make(FlightWithText), StringSchema()):
        with pytest.raises(pulsar.IncompatibleSchema):
            client.create_producer(topic, schema=clashing)
        with pytest.raises(pulsar.IncompatibleSchema):
            client.subscribe(topic, "s", schema=clashing)
    client.create_producer(topic, schema=make(Flight)).send(Flight(tail_number="N1"))


def test_partitions_have_one_schema(client: pulsar.Client, broker: Broker, topic: str) -> None:
    broker.rest.put(f"{topic.replace('://', '/')}/partitions", 2)
    consumer = client.subscribe(topic, "s", schema=AvroSchema(Flight))
    producer = client.create_producer(topic, schema=AvroSchema(Flight))
    for number in range(4):
        producer.send(Flight(minutes_late=number))
    messages = [consumer.receive(RECEIVE_TIMEOUT_MS) for _ in range(4)]
    assert sorted(message.value().minutes_late for message in messages) == [0, 1, 2, 3]
    assert {message.schema_version() for message in messages} == {FIRST_VERSION}
