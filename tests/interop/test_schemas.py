"""Apache Pulsar and Magnetar answer alike about schemas."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.strategy import SchemaCompatibilityStrategy as Strategy
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.interop.conftest import replicated_topic
from tests.kit.clusters import UP_TIMEOUT_S
from tests.kit.raw import RawConnection, name_of, part_of
from tests.unit.schema.definitions import ADDED_REQUIRED, OPTIONAL, REQUIRED, avro, key_value, protobuf_native, record

if TYPE_CHECKING:
    from magnetar.wire.frame import Frame
    from tests.kit.pulsar import MixedClusters

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2 * UP_TIMEOUT_S)]

FIRST, SECOND, CLASHING = (record(*fields).decode() for fields in ([REQUIRED], [REQUIRED, OPTIONAL], [ADDED_REQUIRED]))


def payload(definition: str, kind: str = "AVRO") -> dict[str, Any]:
    return {"type": kind, "schema": definition, "properties": {"owner": "ops"}}


CONVERSATION: list[tuple[str, str, object]] = [
    ("GET", "schema", None),
    ("GET", "schemas", None),
    ("POST", "compatibility", payload(FIRST)),
    ("POST", "schema", payload(FIRST)),
    ("POST", "schema", payload(SECOND)),
    ("POST", "schema", payload(json.dumps(json.loads(FIRST), indent=3, sort_keys=True))),
    ("GET", "schema", None),
    ("GET", "schema/0", None),
    ("GET", "schema/7", None),
    ("GET", "schemas", None),
    ("POST", "version", payload(SECOND)),
    ("POST", "version", payload(CLASHING)),
    ("POST", "compatibility", payload(SECOND)),
    ("POST", "schema", payload(CLASHING)),
    ("POST", "schema", payload("", "STRING")),
    ("POST", "schema", payload("{")),
    ("DELETE", "schema", None),
    ("GET", "schema", None),
    ("GET", "schema/0", None),
    ("GET", "schemas", None),
    ("POST", "schema", payload(CLASHING)),
    ("GET", "schema", None),
    ("DELETE", "schema?force=true", None),
    ("GET", "schema", None),
    ("POST", "schema", payload(SECOND)),
    ("GET", "schemas", None),
]


def test_the_rest_api(mixed: MixedClusters) -> None:
    path, differ = replicated_topic(mixed).replace("persistent://", "schemas/"), []
    for number, (method, what, body) in enumerate(CONVERSATION):
        answers = []
        for name in ("ewr", "apache"):
            response = mixed.rest(name).request(method, f"{path}/{what}", body)
            # Apache Pulsar explains some refusals as plain text.
            answer = response.json() if response.content and response.is_success else None
            if isinstance(answer, dict):
                for each in (answer, *answer.get("getSchemaResponses", ())):
                    each.pop("timestamp", None)
            answers.append((response.status_code, answer))
        differ += [(number, method, what, *answers)] if answers[0] != answers[1] else []
    assert differ == []


SEQUENCES = {
    "same": [avro(REQUIRED), avro(REQUIRED), avro(REQUIRED | {"doc": "x"}), avro(REQUIRED, aliases=["Trip"])],
    "evolution": [avro(REQUIRED), avro(REQUIRED, OPTIONAL), avro(REQUIRED), avro(REQUIRED, ADDED_REQUIRED), avro()],
    "names": [
        avro(REQUIRED, name="a.B"),
        avro(REQUIRED, name="B", namespace="a"),
        avro(REQUIRED, name="C"),
        avro(REQUIRED, name="a-b"),
    ],
    "types": [avro(REQUIRED), SchemaInfo(SchemaType.JSON, avro(REQUIRED).data), SchemaInfo(SchemaType.STRING)],
    "strings": [SchemaInfo(SchemaType.STRING), SchemaInfo(SchemaType.STRING, b"null")],
    "primitives": [SchemaInfo(SchemaType.INT32), SchemaInfo(SchemaType.INT64)],
    "nested": [
        avro({"name": "r", "type": {"type": "record", "name": "R", "fields": [REQUIRED]}}),
        avro({"name": "r", "type": {"type": "record", "name": "S", "fields": [REQUIRED, OPTIONAL]}}),
        avro({"name": "r", "type": ["null", {"type": "record", "name": "T", "fields": [REQUIRED]}]}),
    ],
    "fixed": [
        avro({"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}}),
        avro({"name": "f", "type": {"type": "fixed", "name": "G", "size": 2}}),
        avro({"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}),
    ],
    "promotions": [avro({"name": "n", "type": each}) for each in ("int", "long", "double", "string", "bytes")],
    "protobuf": [protobuf_native(), protobuf_native(fields=2), protobuf_native("air.Airport")],
    "key and value": [
        key_value(SchemaInfo(SchemaType.STRING), avro(REQUIRED)),
        key_value(SchemaInfo(SchemaType.STRING), avro(REQUIRED, OPTIONAL)),
        key_value(SchemaInfo(SchemaType.INT32), avro(REQUIRED)),
        key_value(SchemaInfo(SchemaType.STRING), avro(ADDED_REQUIRED)),
    ],
    "there and back": [
        avro(REQUIRED),
        avro(REQUIRED, OPTIONAL),
        avro(REQUIRED),
        avro(REQUIRED, OPTIONAL | {"type": ["null", "int"]}),
        avro(REQUIRED, OPTIONAL),
        avro(OPTIONAL),
    ],
    "json": [
        SchemaInfo(SchemaType.JSON, record(*fields))
        for fields in ([REQUIRED], [REQUIRED, OPTIONAL], [REQUIRED | {"type": "long"}], [REQUIRED, ADDED_REQUIRED], [])
    ],
    "protobuf as avro": [
        SchemaInfo(SchemaType.PROTOBUF, record(*fields)) for fields in ([REQUIRED], [REQUIRED, OPTIONAL], [REQUIRED])
    ],
    "aliases": [
        avro(REQUIRED),
        avro(REQUIRED | {"name": "number", "aliases": ["id"]}),
        avro(REQUIRED | {"name": "number"}),
        avro(REQUIRED, aliases=["Trip"]),
        avro(REQUIRED, name="Trip"),
    ],
    "defaults": [
        avro(REQUIRED | {"default": 0}),
        avro(),
        avro(REQUIRED),
        avro(REQUIRED | {"default": None, "type": ["null", "int"]}),
    ],
    "logical types": [
        avro({"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}}),
        avro({"name": "t", "type": "long"}),
        avro({"name": "t", "type": {"type": "int", "logicalType": "date"}}),
        avro({"name": "t", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}}),
        avro({"name": "t", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 3}}),
        avro({"name": "t", "type": {"type": "string", "logicalType": "uuid"}}),
        avro({"name": "t", "type": {"type": "string", "logicalType": "unknown"}}),
    ],
    "maps and arrays": [
        avro({"name": "m", "type": {"type": each, kind: values}})
        for each, kind, values in (("map", "values", "int"), ("map", "values", "long"), ("array", "items", "long"))
    ],
    "recursion": [
        avro({"name": "next", "type": ["null", "Flight"], "default": None}),
        avro({"name": "next", "type": ["null", "Flight"], "default": None}, OPTIONAL),
        avro({"name": "next", "type": ["null", "Flight"], "default": None}, REQUIRED),
        avro({"name": "next", "type": {"type": "array", "items": "Flight"}}),
    ],
    "roots": [
        SchemaInfo(SchemaType.AVRO, json.dumps(each).encode())
        for each in ("int", "long", ["null", "int"], {"type": "array", "items": "int"}, {"type": "int"}, "string")
    ],
    "dates": [SchemaInfo(each) for each in (SchemaType.INSTANT, SchemaType.LOCAL_DATE, SchemaType.TIMESTAMP)],
    "separated": [
        key_value(avro(REQUIRED), avro(REQUIRED), "SEPARATED"),
        key_value(avro(REQUIRED, OPTIONAL), avro(REQUIRED), "SEPARATED"),
        key_value(avro(REQUIRED), avro(REQUIRED), "INLINE"),
        key_value(avro(ADDED_REQUIRED), avro(REQUIRED), "SEPARATED"),
        avro(REQUIRED),
    ],
    "invalid": [
        avro(REQUIRED),
        SchemaInfo(SchemaType.AVRO),
        SchemaInfo(SchemaType.AVRO, b"{"),
        SchemaInfo(SchemaType.JSON, b"[]"),
        SchemaInfo(SchemaType.INT32, b"x"),
        SchemaInfo(SchemaType.PROTOBUF_NATIVE, b"{}"),
        avro(REQUIRED, name="1st"),
        avro(REQUIRED | {"type": "integer"}),
    ],
    "unions": [
        avro({"name": "u", "type": ["int", "string"]}),
        avro({"name": "u", "type": ["string", "int"]}),
        avro({"name": "u", "type": ["int", "string", "null"]}),
        avro({"name": "u", "type": "int"}),
    ],
    "enums": [
        avro({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}}),
        avro({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"], "default": "A"}}),
        avro({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}),
        avro({"name": "e", "type": {"type": "enum", "name": "F", "symbols": ["A"], "aliases": ["E"]}}),
        avro({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"], "namespace": "n"}}),
    ],
}


@pytest.mark.parametrize("strategy", [each.value for each in Strategy if each is not Strategy.UNDEFINED])
def test_decisions_about_producers_and_consumers(mixed: MixedClusters, strategy: str) -> None:
    namespace = replicated_topic(mixed).removeprefix("persistent://").rpartition("/")[0]
    decisions = {}
    for name in ("ewr", "apache"):
        mixed.rest(name).put(f"namespaces/{namespace}/schemaCompatibilityStrategy", strategy)
        for sequence, schemas in SEQUENCES.items():
            topic = f"persistent://{namespace}/{sequence.replace(' ', '-')}-{name}"
            decisions[sequence, name] = decided(mixed, name, topic, schemas)
    differ = [
        f"{sequence}: here {decisions[sequence, 'ewr']}, there {decisions[sequence, 'apache']}"
        for sequence in SEQUENCES
        if decisions[sequence, "ewr"] != decisions[sequence, "apache"]
    ]
    assert not differ, "\n".join(differ)


def decided(mixed: MixedClusters, name: str, topic: str, schemas: list[SchemaInfo]) -> list[object]:
    """Return the version or the error for a producer, then for a consumer, with each schema in turn."""
    found: list[object] = []
    with RawConnection.connected(mixed.members[name].service_url) as raw:
        raw.request("LOOKUP", "LOOKUP_RESPONSE", topic=topic)
        for number, schema in enumerate(schemas):
            sent = pb.Schema(name="", schema_data=schema.data, type=schema.type)  # type: ignore[arg-type]
            sent.properties.extend(pb.KeyValue(key=key, value=value) for key, value in schema.properties.items())
            produced = raw.decision(
                "PRODUCER", "PRODUCER_SUCCESS", "ERROR", topic=topic, producer_id=number, schema=sent
            )
            consumed = raw.decision(
                "SUBSCRIBE",
                "SUCCESS",
                "ERROR",
                topic=topic,
                consumer_id=number,
                subscription=secrets.token_hex(4),
                subType=pb.CommandSubscribe.Exclusive,
                schema=sent,
            )
            found += [outcome(produced), outcome(consumed)]
    return found


def outcome(answer: Frame) -> object:
    """Return the version, the kind of the answer, or the error."""
    part = part_of(answer)
    if name_of(answer) == "ERROR":
        return pb.ServerError.Name(part.error)
    return list(part.schema_version[-1:]) if name_of(answer) == "PRODUCER_SUCCESS" else "admitted"
