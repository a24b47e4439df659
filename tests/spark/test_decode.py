"""Values decoded by the schema of their topic, from messages of the official client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pulsar.schema import AvroSchema, JsonSchema, ProtobufNativeSchema, Record, String
from pulsar.schema import Integer as Int
from pyspark.errors import AnalysisException, PySparkException

from magnetar.schema.key_value import joined
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.messages import publish
from tests.spark.queries import addresses, read, run_stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pulsar
    from pyspark.sql import SparkSession

    from tests.kit.broker import Broker

pytestmark = pytest.mark.timeout(240)


class Order(Record):  # type: ignore[misc]
    """A value in JSON."""

    id = Int()
    note = String()


def order(*fields: tuple[str, object]) -> AvroSchema:
    """Return the Avro schema of an order with fields of a name and a type; all may be null."""
    listed = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return AvroSchema(None, {"type": "record", "name": "Order", "fields": listed})


def send(client: pulsar.Client, topic: str, values: Sequence[object], schema: object) -> None:
    """Publish values with a schema."""
    producer = client.create_producer(topic, schema=schema)
    for value in values:
        producer.send(value)
    producer.close()


def test_each_avro_message_is_decoded_with_its_version(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    send(client, topic, [{"id": 1, "gone": "x"}], schema=order(("id", "int"), ("gone", "string")))
    send(client, topic, [{"id": 2, "note": "new"}], schema=order(("note", "string"), ("id", "int")))
    frame = read(spark, broker, topic=topic, decode="true")
    assert frame.schema["value"].dataType.simpleString() == "struct<note:string,id:int>"
    rows = frame.select("value.*").orderBy("id").collect()
    assert [row.asDict() for row in rows] == [{"note": None, "id": 1}, {"note": "new", "id": 2}]
    stream = spark.readStream.format("magnetar").options(**addresses(broker), topic=topic, decode="true").load()
    run_stream(stream, tmp_path)
    assert spark.read.parquet(str(tmp_path / "rows")).select("value.id").orderBy("id").collect() == [(1,), (2,)]


def test_json_values_are_structs(spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str) -> None:
    broker.rest.put(f"{topic.replace('://', '/')}/partitions", 2)
    send(client, topic, [Order(id=1, note="a"), Order(id=2, note=None)], schema=JsonSchema(Order))
    frame = read(spark, broker, topic=topic, decode="true")
    rows = frame.select("value.id", "value.note").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (2, None)]


def test_protobuf_values_are_structs(spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str) -> None:
    sent = pb.KeyValue(key="colour", value="red")
    send(client, topic, [sent], schema=ProtobufNativeSchema(pb.KeyValue))
    (row,) = read(spark, broker, topic=topic, decode="true").select("value.*").collect()
    assert row.asDict() == {"key": "colour", "value": "red"}


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_key_value_is_a_struct(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str, encoding: str
) -> None:
    parts = {"key.schema.type": "STRING", "value.schema.type": "JSON", "kv.encoding.type": encoding}
    definition = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    text = json.dumps({"key": "", "value": definition})
    schema = {"type": "KEY_VALUE", "schema": text, "properties": parts}
    broker.rest.post(f"schemas/{topic.partition('://')[2]}/schema", schema)
    value = b'{"id": 7}'
    payload = joined(b"EWR", value) if encoding == "INLINE" else value
    producer = client.create_producer(topic)
    producer.send(payload, partition_key="EWR" if encoding == "SEPARATED" else None)
    frame = read(spark, broker, topic=topic, decode="true")
    assert frame.schema["value"].dataType.simpleString() == "struct<key:string,value:struct<id:int>>"
    assert frame.select("value.key", "value.value.id").collect() == [("EWR", 7)]


def test_values_of_topics_with_one_type_are_read_together(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    for suffix, kind in (("a", "int"), ("b", "int"), ("c", "string")):
        send(client, f"{topic}-{suffix}", [{"id": "7" if kind == "string" else 7}], schema=order(("id", kind)))
    rows = read(spark, broker, topics=f"{topic}-a,{topic}-b", decode="true").select("value.id").collect()
    assert [row["id"] for row in rows] == [7, 7]
    with pytest.raises((AnalysisException, PySparkException), match="have different types"):
        read(spark, broker, topicsPattern=f"{topic}-.", decode="true").collect()


def test_a_payload_that_does_not_match_fails_the_query_with_its_position(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    definition = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
    (sent,) = publish(client, topic, [b"\x7f"])
    schema = {"type": "AVRO", "schema": definition, "properties": {}}
    broker.rest.post(f"schemas/{topic.partition('://')[2]}/schema", schema)
    with pytest.raises(PySparkException, match=f"entry {sent.ledger_id()}:{sent.entry_id()}: a payload of 1 bytes"):
        read(spark, broker, topic=topic, decode="true").collect()


def test_a_topic_without_a_schema_has_bytes(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    publish(client, topic, [b"\x00\x01"])
    (row,) = read(spark, broker, topic=topic, decode="true").collect()
    assert bytes(row["value"]) == b"\x00\x01"


def test_a_schema_of_the_query_has_the_type_of_the_topic(
    spark: SparkSession, broker: Broker, client: pulsar.Client, topic: str
) -> None:
    send(client, topic, [{"id": 1}], schema=order(("id", "int")))
    reader = spark.read.format("magnetar").options(**addresses(broker), topic=topic, decode="true")
    (row,) = reader.schema("__entryId bigint, value struct<id: int>").load().collect()
    assert row["value"]["id"] == 1
    with pytest.raises((AnalysisException, PySparkException), match="column value has the type struct<id:int>"):
        reader.schema("value struct<id: string>").load().collect()
