"""Schemas: the client's JSON schema works end to end, or is refused with its name."""

from __future__ import annotations

import pulsar
from pulsar.schema import Integer, JsonSchema, Record, String, StringSchema

from tests.kit.messages import RECEIVE_TIMEOUT_MS


class Flight(Record):  # type: ignore[misc]  # the client is published without types
    """A record with two fields."""

    tail_number = String()
    minutes_late = Integer()


def test_json_schema(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=JsonSchema(Flight))
    producer = client.create_producer(topic, schema=JsonSchema(Flight))
    producer.send(Flight(tail_number="N14228", minutes_late=11))
    value = consumer.receive(RECEIVE_TIMEOUT_MS).value()
    assert (value.tail_number, value.minutes_late) == ("N14228", 11)


def test_string_schema(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=StringSchema())
    client.create_producer(topic, schema=StringSchema()).send("naïve")
    assert consumer.receive(RECEIVE_TIMEOUT_MS).value() == "naïve"


def test_reader_without_a_schema_sees_the_bytes(client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=StringSchema()).send("bytes")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert reader.read_next(RECEIVE_TIMEOUT_MS).data() == b"bytes"
