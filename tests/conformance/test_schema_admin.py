"""Schemas by the REST API, and their policies."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, Record, String

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.raw import RawConnection
from tests.unit.schema.definitions import ADDED_REQUIRED, OPTIONAL, REQUIRED, key_value, protobuf_native, record

if TYPE_CHECKING:
    from magnetar.schema.info import SchemaInfo
    from tests.kit.broker import Broker

FIRST, SECOND, CLASHING = (record(*fields).decode() for fields in ([REQUIRED], [REQUIRED, OPTIONAL], [ADDED_REQUIRED]))
ERROR = {"reason": "Schema not found"}


class Flight(Record):  # type: ignore[misc]  # the client is published without types
    """The record of the definitions."""

    id = Integer(required=True)


class Airport(Record):  # type: ignore[misc]
    """Another record."""

    code = String(required=True)


def avro(definition: str, **properties: str) -> dict[str, Any]:
    return {"type": "AVRO", "schema": definition, "properties": properties}


def path(topic: str, what: str) -> str:
    return f"{topic.replace('persistent://', 'schemas/')}/{what}"


def test_versions(broker: Broker, topic: str) -> None:
    rest, before_ms = broker.rest, time.time() * 1000
    assert rest.call("POST", path(topic, "schema"), avro(FIRST, owner="ops")) == {"version": {"version": 0}}
    assert rest.call("POST", path(topic, "schema"), avro(SECOND)) == {"version": {"version": 1}}
    assert rest.call("POST", path(topic, "schema"), avro(FIRST)) == {"version": {"version": 0}}
    first, second = rest.get(path(topic, "schemas"))["getSchemaResponses"]
    assert before_ms - 1000 < first.pop("timestamp") < time.time() * 1000 + 1000
    assert first == {"version": 0, "type": "AVRO", "data": FIRST, "properties": {"owner": "ops"}}
    assert rest.get(path(topic, "schema")) == rest.get(path(topic, "schema/1")) == second
    assert rest.call("POST", path(topic, "version"), avro(SECOND)) == {"version": 1}
    assert rest.call("POST", path(topic, "version"), avro(CLASHING)) == {"version": -1}


def test_a_schema_of_a_client(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.create_producer(topic, schema=AvroSchema(Flight))
    found = broker.rest.get(path(topic, "schema"))
    assert (found["type"], json.loads(found["data"])) == ("AVRO", Flight.schema())
    broker.rest.post(path(topic, "schema"), avro(json.dumps(Flight.schema(), sort_keys=True)))
    assert len(broker.rest.get(path(topic, "schemas"))["getSchemaResponses"]) == 1


@pytest.mark.parametrize(
    "schema",
    [key_value(protobuf_native(), protobuf_native()), protobuf_native()],
    ids=lambda schema: schema.type.name,
)
def test_a_schema_of_each_form(broker: Broker, topic: str, schema: SchemaInfo) -> None:
    with RawConnection.connected(broker.service_url) as raw:
        sent = pb.Schema(name="", schema_data=schema.data, type=schema.type)  # type: ignore[arg-type]
        sent.properties.extend(pb.KeyValue(key=key, value=value) for key, value in schema.properties.items())
        raw.request("PRODUCER", "PRODUCER_SUCCESS", topic=topic, producer_id=1, schema=sent)
    found = broker.rest.get(path(topic, "schema"))
    payload = {"type": found["type"], "schema": found["data"], "properties": found["properties"]}
    assert broker.rest.call("POST", path(topic, "version"), payload) == {"version": 0}
    assert broker.rest.call("POST", path(topic, "schema"), payload) == {"version": {"version": 0}}


def test_compatibility(broker: Broker, topic: str) -> None:
    rest = broker.rest

    def asked(definition: str) -> Any:  # noqa: ANN401 - JSON
        return rest.call("POST", path(topic, "compatibility"), avro(definition))

    assert asked(FIRST) == {"compatibility": True, "schemaCompatibilityStrategy": "FULL"}
    rest.post(path(topic, "schema"), avro(FIRST))
    assert [asked(each)["compatibility"] for each in (FIRST, SECOND, CLASHING)] == [True, True, False]
    assert rest.get(path(topic, "schema"))["version"] == 0, "nothing is registered"


def test_refusals(broker: Broker, topic: str) -> None:
    rest = broker.rest
    rest.post(path(topic, "schema"), avro(FIRST))
    for payload, status in (
        (avro(CLASHING), 409),
        ({"type": "STRING"}, 409),
        (avro("{"), 422),
        ({"type": "AUTO_CONSUME"}, 422),
        ({"type": "TEXT"}, 422),
        ({"type": "KEY_VALUE", "schema": "{}"}, 422),
        (avro(record(REQUIRED, doc="x" * 600_000).decode()), 412),
        ({"schema": FIRST}, 400),
        ([], 400),
    ):
        answer = rest.request("POST", path(topic, "schema"), payload)
        assert answer.status_code == status, answer.text
        assert answer.json()["reason"]
    assert rest.request("GET", path(topic, "schema/7")).json() == ERROR
    assert rest.request("GET", path(topic, "schema/x")).status_code == 400
    assert rest.request("GET", path(f"{topic}-2", "schema")).json() == ERROR
    assert rest.get(path(f"{topic}-2", "schemas")) == {"getSchemaResponses": []}
    assert rest.request("GET", "schemas/public/nowhere/t/schema").status_code == 404


def test_deletion(broker: Broker, client: pulsar.Client, topic: str) -> None:
    rest = broker.rest
    rest.post(path(topic, "schema"), avro(FIRST))
    assert rest.call("DELETE", path(topic, "schema")) == {"version": 1}
    assert rest.request("GET", path(topic, "schema")).json() == ERROR
    assert rest.request("GET", path(topic, "schema/0")).json() == ERROR
    client.create_producer(topic, schema=AvroSchema(Airport))
    assert rest.get(path(topic, "schema"))["version"] == 2
    assert rest.call("DELETE", path(topic, "schema?force=true")) == {"version": -1}
    rest.post(path(topic, "schema"), avro(FIRST))
    assert rest.get(path(topic, "schema"))["version"] == 0


@pytest.mark.parametrize("partitions", [0, 2])
def test_the_schema_is_deleted_with_its_topic(broker: Broker, topic: str, partitions: int) -> None:
    rest, owner = broker.rest, topic.replace("://", "/") + ("/partitions" if partitions else "")
    rest.put(owner, partitions or None)
    rest.post(path(topic, "schema"), avro(FIRST))
    rest.post(path(topic, "schema"), avro(SECOND))
    rest.delete(owner)
    assert rest.get(path(topic, "schemas")) == {"getSchemaResponses": []}


def test_policies_of_a_namespace(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    rest, policies, topic = broker.rest, f"namespaces/{namespace}", f"persistent://{namespace}/t"
    names = ("schemaCompatibilityStrategy", "schemaValidationEnforced", "isAllowAutoUpdateSchema")
    assert [rest.get(f"{policies}/{name}") for name in names] == ["UNDEFINED", False, True]
    client.create_producer(topic, schema=AvroSchema(Flight))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(Airport))
    rest.put(f"{policies}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    rest.post(f"{policies}/isAllowAutoUpdateSchema", body=False)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(Airport))
    rest.post(f"{policies}/isAllowAutoUpdateSchema", body=True)
    client.create_producer(topic, schema=AvroSchema(Airport))
    client.create_producer(topic)
    rest.post(f"{policies}/schemaValidationEnforced", body=True)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic)
    assert [rest.get(f"{policies}/{name}") for name in names] == ["ALWAYS_COMPATIBLE", True, True]
    assert rest.request("PUT", f"{policies}/schemaCompatibilityStrategy", "SOME").status_code == 400


def test_policies_of_a_topic(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    rest, topic = broker.rest, f"persistent://{namespace}/t"
    owner = topic.replace("://", "/")
    rest.put(owner)
    assert rest.get(f"{owner}/schemaCompatibilityStrategy") is None
    assert rest.get(f"{owner}/schemaCompatibilityStrategy?applied=true") == "FULL"
    rest.put(f"namespaces/{namespace}/schemaCompatibilityStrategy", "ALWAYS_INCOMPATIBLE")
    rest.put(f"{owner}/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    assert rest.get(f"{owner}/schemaCompatibilityStrategy") == "ALWAYS_COMPATIBLE"
    for schema in (Flight, Airport):
        client.create_producer(topic, schema=AvroSchema(schema))
    rest.delete(f"{owner}/schemaCompatibilityStrategy")
    assert rest.get(f"{owner}/schemaCompatibilityStrategy?applied=true") == "ALWAYS_INCOMPATIBLE"
    rest.post(f"{owner}/schemaValidationEnforced", body=True)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic)
    rest.delete(f"{owner}/schemaValidationEnforced")
    client.create_producer(topic)
