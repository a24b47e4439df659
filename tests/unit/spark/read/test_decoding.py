"""Payloads decoded by the schema of their topic."""

from __future__ import annotations

import base64
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from magnetar.base.errors import ConfigurationError, RemoteProtocolError
from magnetar.base.position import Position
from magnetar.schema.info import SchemaInfo, SchemaType, version_to_bytes
from magnetar.schema.key_value import joined
from magnetar.schema.protobuf_native import root_descriptor
from magnetar.spark import columns
from magnetar.spark.read.batches.messages import Stored, parse
from magnetar.spark.read.batches.rows import Rows
from magnetar.spark.read.decoding.values import Decoder, codec_of, common_type
from magnetar.wire.entries.batch import BatchedMessage, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata
from magnetar.wire.proto import pulsar_api_pb2 as pb

Json = Any


def avro(definition: Json) -> SchemaInfo:
    return SchemaInfo(SchemaType.AVRO, json.dumps(definition).encode())


def encoded(schema: SchemaInfo, value: Json) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema.data)), value)
    return out.getvalue()


def decoded(current: SchemaInfo, payload: bytes, version: int | None = None, *written: SchemaInfo) -> Json:
    """Return the value as Arrow has it."""
    decoder = Decoder(current, lambda number: written[number])
    value = decoder.value(payload, b"" if version is None else version_to_bytes(version))
    return pa.array([value], to_arrow_type(decoder.kind, timezone="UTC")).to_pylist()[0]


def key_value(key: SchemaInfo, value: SchemaInfo, encoding: str = "INLINE") -> SchemaInfo:
    types = {"key.schema.type": key.type.name, "value.schema.type": value.type.name}
    return SchemaInfo(SchemaType.KEY_VALUE, joined(key.data, value.data), {**types, "kv.encoding.type": encoding})


def record(*fields: Json) -> Json:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}


FULL = avro(
    record(
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "other", "type": "Colour"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "buyer", "type": record({"name": "name", "type": "string"}) | {"name": "Buyer"}},
    )
)


def test_avro_types_have_their_counterparts() -> None:
    assert codec_of(FULL).kind.simpleString() == (
        "struct<id:bigint,note:string,colour:string,other:string,tags:array<string>,counts:map<string,int>,"
        "at:timestamp,day:date,price:decimal(9,2),time:int,uuid:string,buyer:struct<name:string>>"
    )
    value = {
        "id": 5,
        "note": None,
        "colour": "RED",
        "other": "BLUE",
        "tags": ["a"],
        "counts": {"x": 1},
        "at": datetime.fromtimestamp(1.5, UTC),
        "day": date(2024, 2, 29),
        "price": Decimal("12.50"),
        "uuid": "9d9b2e0e-5d6b-4a8f-8d0e-0a6d0c1c2b3a",
        "buyer": {"name": "Ada"},
    }
    payload = encoded(FULL, {**value, "time": 7})
    assert decoded(FULL, payload) == {**value, "time": 7, "counts": [("x", 1)]}


def test_each_payload_is_decoded_with_its_own_version() -> None:
    old = avro(record({"name": "id", "type": "int"}, {"name": "gone", "type": "string"}))
    new = avro(record({"name": "note", "type": "string", "default": "none"}, {"name": "id", "type": "long"}))
    assert decoded(new, encoded(old, {"id": 5, "gone": "x"}), 0, old, new) == {"id": 5, "note": "none"}
    assert decoded(new, encoded(new, {"id": 6, "note": "y"}), 1, old, new) == {"id": 6, "note": "y"}
    assert decoded(new, encoded(new, {"id": 7, "note": "z"})) == {"id": 7, "note": "z"}


def test_json_fields_may_be_missing_or_unknown() -> None:
    schema = SchemaInfo(SchemaType.JSON, FULL.data)
    kind = codec_of(schema).kind
    assert isinstance(kind, StructType)
    assert [kind[name].dataType.simpleString() for name in ("at", "price", "buyer")] == [
        "bigint",
        "string",
        "struct<name:string>",
    ]
    value = decoded(schema, b'{"id": 5, "counts": {"x": 1}, "buyer": {"name": "Ada", "age": 36}, "new": []}')
    assert (value["id"], value["counts"], value["buyer"], value["note"]) == (5, [("x", 1)], {"name": "Ada"}, None)


def protobuf(*fields: tuple[str, int, int, str]) -> SchemaInfo:
    """Return the schema of a message ``Order`` with fields of a name, number, type and type name."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    labels = {"tags": descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED}
    for name, number, kind, type_name in fields:
        label = labels.get(name, descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL)
        order.field.add(name=name, number=number, type=kind, type_name=type_name or None, label=label)
    file.message_type.add(name="Buyer").field.add(name="name", number=1, type=9, label=1)
    colours = file.enum_type.add(name="Colour")
    colours.value.add(name="NONE", number=0)
    colours.value.add(name="RED", number=1)
    files = descriptor_pb2.FileDescriptorSet(file=[file])
    document = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": "shop.Order",
        "rootFileDescriptorName": "shop.proto",
    }
    return SchemaInfo(SchemaType.PROTOBUF_NATIVE, json.dumps(document).encode())


def test_protobuf_messages_are_structs() -> None:
    schema = protobuf(
        ("id", 1, 4, ""), ("tags", 2, 9, ""), ("buyer", 3, 11, ".shop.Buyer"), ("colour", 4, 14, ".shop.Colour")
    )
    assert codec_of(schema).kind.simpleString() == (
        "struct<id:decimal(20,0),tags:array<string>,buyer:struct<name:string>,colour:string>"
    )
    order: Any = GetMessageClass(root_descriptor(schema.data))
    full = order(id=2**64 - 1, tags=["a", "b"], buyer={"name": "Ada"}, colour=1).SerializeToString()
    assert decoded(schema, full) == {
        "id": Decimal(2**64 - 1),
        "tags": ["a", "b"],
        "buyer": {"name": "Ada"},
        "colour": "RED",
    }
    unknown = order(colour=9).SerializeToString()
    assert decoded(schema, unknown) == {"id": Decimal(0), "tags": [], "buyer": None, "colour": "9"}


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        (SchemaType.STRING, "grün".encode(), "grün"),
        (SchemaType.BYTES, b"\x00", b"\x00"),
        (SchemaType.NONE, b"\xff", b"\xff"),
        (SchemaType.BOOLEAN, b"\x01", True),
        (SchemaType.INT8, b"\xff", -1),
        (SchemaType.INT32, struct.pack(">i", -70_000), -70_000),
        (SchemaType.INT64, struct.pack(">q", 2**40), 2**40),
        (SchemaType.DOUBLE, struct.pack(">d", 0.5), 0.5),
    ],
)
def test_primitive_values_are_decoded(kind: SchemaType, payload: bytes, value: object) -> None:
    assert decoded(SchemaInfo(kind), payload) == value


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (SchemaInfo(SchemaType.KEY_VALUE), "key/value definition ends before both its parts do"),
        (key_value(SchemaInfo(SchemaType.STRING), SchemaInfo(SchemaType.PROTOBUF)), "PROTOBUF are not supported"),
        (SchemaInfo(SchemaType.PROTOBUF), "PROTOBUF are not supported"),
        (avro(record({"name": "x", "type": ["int", "string"]})), "union"),
        (avro(record({"name": "next", "type": ["null", "Order"]})), "type Order contains itself"),
        (avro(record({"name": "x", "type": "Nothing"})), "type Nothing has no Spark type"),
        (protobuf(("next", 1, 11, ".shop.Order")), "shop.Order contains itself"),
    ],
)
def test_a_schema_without_a_spark_type_is_refused(schema: SchemaInfo, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=f"decode=true: .*{problem}"):
        codec_of(schema)


STRING, NUMBER = SchemaInfo(SchemaType.STRING), SchemaInfo(SchemaType.INT32)
ORDER = avro(record({"name": "id", "type": "long"}))
LATER_ORDER = avro(record({"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}))


def test_key_value_is_a_struct_of_both() -> None:
    current = key_value(STRING, LATER_ORDER)
    assert codec_of(current).kind.simpleString() == "struct<key:string,value:struct<id:bigint,note:string>>"
    payload = joined(b"EWR", encoded(ORDER, {"id": 7}))
    found = decoded(current, payload, 0, key_value(STRING, ORDER))
    assert found == {"key": "EWR", "value": {"id": 7, "note": "-"}}
    assert decoded(current, joined(None, None)) == {"key": None, "value": None}


def test_a_separated_key_is_that_of_the_message() -> None:
    current = key_value(NUMBER, STRING, "SEPARATED")
    decoder = Decoder(current, lambda _: key_value(NUMBER, STRING))
    assert decoder.value(b"late", b"", struct.pack(">i", 5)) == {"key": 5, "value": "late"}
    assert decoder.value(None, b"", struct.pack(">i", 5)) == {"key": 5, "value": None}
    assert decoder.value(b"late", b"") == {"key": None, "value": "late"}
    inline = version_to_bytes(0)
    assert decoder.value(joined(struct.pack(">i", 6), b"x"), inline, b"other") == {"key": 6, "value": "x"}
    assert decoder.value(None, inline, b"other") is None


@pytest.mark.parametrize(
    "payload", [b"", joined(b"abcd", b"x")[:-1], joined(b"abcd", b"x") + b"y", joined(b"abc", b"x")]
)
def test_a_payload_without_key_and_value_is_an_error(payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=f"a payload of {len(payload)} bytes does not match the schema"):
        decoded(key_value(NUMBER, STRING), payload)


def test_a_version_with_another_type_of_key_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="the key of a version of the schema is STRING, not INT32"):
        decoded(key_value(NUMBER, STRING), b"", 0, key_value(STRING, STRING))


def test_rows_have_the_keys_of_their_messages() -> None:
    def entry(metadata: pb.MessageMetadata, payload: bytes) -> Stored:
        built = build_entry(metadata, payload)
        return Stored(Position(5, 0), parse_metadata(built), built)

    one = pb.MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1,
        partition_key=base64.b64encode(b"\xff\x00").decode(),
        partition_key_b64_encoded=True,
    )
    two = pb.MessageMetadata(producer_name="p", sequence_id=2, publish_time=1, partition_key="text")
    decoder = Decoder(key_value(SchemaInfo(SchemaType.BYTES), STRING, "SEPARATED"), lambda _: STRING)
    schema = to_arrow_schema(StructType().add(columns.VALUE, decoder.kind))
    rows = Rows("t", -1, parse([entry(one, b"a"), entry(two, b"b")]), decoder).batch(schema).to_pylist()
    assert [row[columns.VALUE] for row in rows] == [
        {"key": b"\xff\x00", "value": "a"},
        {"key": b"text", "value": "b"},
    ]


def test_topics_have_one_type() -> None:
    string, number = SchemaInfo(SchemaType.STRING), SchemaInfo(SchemaType.INT32)
    assert common_type({"a": string, "b": string}).simpleString() == "string"
    with pytest.raises(ConfigurationError, match="the schemas of a and b have different types"):
        common_type({"a": string, "b": number})
    with pytest.raises(ConfigurationError, match="no topic exists"):
        common_type({})


def test_a_version_of_another_type_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError, match="version 0 of the schema is STRING, not INT32"):
        decoded(SchemaInfo(SchemaType.INT32), bytes(4), 0, SchemaInfo(SchemaType.STRING))
    with pytest.raises(RemoteProtocolError, match="schema version 0102 is not a number"):
        Decoder(SchemaInfo(SchemaType.INT32), lambda _: SchemaInfo(SchemaType.INT32)).value(bytes(4), b"\x01\x02")


FIVE = struct.pack(">i", 5)


def rows_of(
    decoder: Decoder, payload: bytes, first: bytes = FIVE, *, removed: bool = False, null: bool = False
) -> list[Json]:
    own = pb.SingleMessageMetadata(compacted_out=removed, null_value=null)
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=2)
    good = BatchedMessage(pb.SingleMessageMetadata(), first)
    entry = build_entry(metadata, encode_batch([good, BatchedMessage(own, payload)]))
    schema = to_arrow_schema(StructType().add(columns.VALUE, decoder.kind))
    messages = parse([Stored(Position(7, 3), parse_metadata(entry), entry)])
    return [row[columns.VALUE] for row in Rows("t", -1, messages, decoder).batch(schema).to_pylist()]


def test_null_values_and_removed_messages_are_not_decoded() -> None:
    decoder = Decoder(SchemaInfo(SchemaType.INT32), lambda _: SchemaInfo(SchemaType.INT32))
    assert rows_of(decoder, struct.pack(">i", 6)) == [5, 6]
    assert rows_of(decoder, b"", null=True) == [5, None]
    assert rows_of(decoder, b"", removed=True) == [5]


def test_a_payload_that_does_not_match_its_schema_is_named() -> None:
    decoder = Decoder(SchemaInfo(SchemaType.INT32), lambda _: SchemaInfo(SchemaType.INT32))
    with pytest.raises(RemoteProtocolError, match="entry 7:3: a payload of 3 bytes does not match the schema"):
        rows_of(decoder, b"abc")


def test_a_value_that_does_not_fit_its_type_is_named() -> None:
    schema = SchemaInfo(SchemaType.JSON, b'"int"')
    with pytest.raises(RemoteProtocolError, match="after entry 7:3 does not match the schema"):
        rows_of(Decoder(schema, lambda _: schema), b'"text"', b"5")
