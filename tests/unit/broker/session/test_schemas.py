"""Schemas on the wire: PRODUCER, SUBSCRIBE, GET_SCHEMA and GET_OR_CREATE_SCHEMA."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import ServerError
from magnetar.metadata.policies import Policies
from magnetar.schema.info import SchemaInfo, SchemaType, version_to_bytes
from magnetar.sim.cluster import NAMESPACE, TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.schema.definitions import ADDED_REQUIRED, OPTIONAL, REQUIRED, avro, key_value, protobuf_native

FIRST, SECOND, CLASHING = avro(REQUIRED), avro(REQUIRED, OPTIONAL), avro(ADDED_REQUIRED)
EACH_TYPE = [
    SchemaInfo(SchemaType.STRING),
    SchemaInfo(SchemaType.JSON, FIRST.data, {"__alwaysAllowNull": "true"}),
    SchemaInfo(SchemaType.PROTOBUF, FIRST.data),
    FIRST,
    *(SchemaInfo(kind) for kind in SchemaType if SchemaType.BOOLEAN <= kind <= SchemaType.TIMESTAMP),
    key_value(SchemaInfo(SchemaType.STRING), FIRST, "SEPARATED"),
    *(SchemaInfo(kind) for kind in SchemaType if SchemaType.INSTANT <= kind <= SchemaType.LOCAL_DATE_TIME),
    protobuf_native(),
    SchemaInfo(SchemaType.EXTERNAL, b"of a system outside"),
]


def wire(schema: SchemaInfo) -> pb.Schema:
    return pb.Schema(
        name="Flight",
        schema_data=schema.data,
        type=pb.Schema.Type.Name(schema.type),  # type: ignore[arg-type]
        properties=commands.key_values(schema.properties),
    )


AUTO_CONSUME = pb.Schema(name="", schema_data=b"", type=pb.Schema.AutoConsume)
NONE = pb.Schema(name="", schema_data=b"", type=getattr(pb.Schema, "None"))


def versions(client: Client) -> list[bytes]:
    return [success.schema_version for success in client.take("PRODUCER_SUCCESS")]


def errors(client: Client) -> list[ServerError]:
    return [ServerError(error.error) for error in client.take("ERROR")]


def get(client: Client, **fields: Any) -> Any:  # noqa: ANN401 - a command of the protocol
    body = pb.CommandGetSchema(request_id=client.request_id(), topic=str(TOPIC), **fields)
    client.say(commands.encode(body))
    (answer,) = client.take("GET_SCHEMA_RESPONSE")
    return answer


def get_or_create(client: Client, schema: pb.Schema, topic: str = str(TOPIC), producer_name: str = "") -> Any:  # noqa: ANN401
    request_id = client.request_id()
    client.say(
        commands.get_or_create_schema(request_id=request_id, topic=topic, schema=schema, producer_name=producer_name)
    )
    (answer,) = client.take("GET_OR_CREATE_SCHEMA_RESPONSE")
    return answer


@pytest.mark.parametrize("schema", EACH_TYPE, ids=lambda schema: schema.type.name)
def test_a_schema_of_each_type(schema: SchemaInfo) -> None:
    client = Cluster().client()
    client.produce(schema=wire(schema))
    assert versions(client) == [version_to_bytes(0)]
    answer = get(client)
    assert (answer.schema_version, answer.schema.schema_data) == (version_to_bytes(0), schema.data)
    assert (answer.schema.name, answer.schema.type) == ("public/default/orders", schema.type)
    assert {each.key: each.value for each in answer.schema.properties} == schema.properties
    client.subscribe(schema=wire(schema))
    assert errors(client) == []


def test_every_type_is_covered() -> None:
    assert {schema.type for schema in EACH_TYPE} == {kind for kind in SchemaType if kind > SchemaType.NONE}


def test_versions_in_answers_to_producers() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce(1)
    client.produce(2, schema=NONE)
    client.produce(3, schema=wire(FIRST))
    client.produce(4, schema=wire(SECOND))
    client.produce(5, schema=wire(FIRST))
    client.produce(5, schema=wire(FIRST))
    assert versions(client) == [b"", b"", *map(version_to_bytes, (0, 1, 0, 0))]
    cluster.crash()
    client = cluster.client()
    client.produce(1, schema=wire(SECOND))
    assert versions(client) == [version_to_bytes(1)]


def test_the_producer_that_waits_gets_its_version_with_the_topic() -> None:
    client = Cluster().client()
    client.produce(1, producer_access_mode=pb.Exclusive, schema=wire(FIRST))
    client.produce(2, producer_access_mode=pb.WaitForExclusive, schema=wire(SECOND))
    client.say(commands.close_producer(producer_id=1, request_id=client.request_id()))
    assert versions(client) == [version_to_bytes(0), b"", version_to_bytes(1)]


@pytest.mark.parametrize(
    "schema",
    [
        wire(CLASHING),
        wire(SchemaInfo(SchemaType.STRING)),
        wire(SchemaInfo(SchemaType.AVRO, b"{")),
        AUTO_CONSUME,
        pb.Schema(name="", schema_data=b"", type=pb.Schema.External),
    ],
)
def test_a_clash_is_refused(schema: pb.Schema) -> None:
    client = Cluster().client()
    client.produce(1, schema=wire(FIRST))
    client.produce(2, schema=schema)
    assert errors(client) == [ServerError.IncompatibleSchema]
    assert get_or_create(client, schema).error_code == pb.IncompatibleSchema
    client.produce(2, schema=wire(SECOND))
    assert versions(client) == list(map(version_to_bytes, (0, 1)))


def test_validation_refuses_producers_without_a_schema() -> None:
    cluster = Cluster(targets=["jfk"])
    client = cluster.client()
    changed = Policies(replication_clusters=["ewr", "jfk"], schema_validation_enforced=True)
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda _: changed))
    client.produce(1)
    assert get_or_create(client, NONE).schema_version == b""
    assert versions(client) == [b""]
    client.produce(2, schema=wire(FIRST))
    client.produce(3)
    assert errors(client) == [ServerError.IncompatibleSchema]
    assert get_or_create(client, NONE).error_code == pb.IncompatibleSchema
    client.produce(4, name="pulsar.repl.jfk-->ewr")
    assert versions(client) == [version_to_bytes(0), b""], "a link brings what was published without a schema, too"


def test_the_first_consumer_brings_a_schema() -> None:
    client = Cluster().client()
    client.subscribe(1, schema=AUTO_CONSUME)
    client.subscribe(2, schema=wire(FIRST))
    assert errors(client) == []
    assert get(client).schema.schema_data == FIRST.data
    client.subscribe(3, schema=wire(SECOND))
    client.subscribe(4, schema=wire(CLASHING))
    client.subscribe(5, schema=AUTO_CONSUME)
    client.subscribe(6)
    assert errors(client) == [ServerError.IncompatibleSchema]
    assert len(client.take("SUCCESS")) == 5
    assert get(client).schema_version == version_to_bytes(0), "consumers only check against the schema of the topic"


def test_a_topic_in_use_gets_no_schema_from_a_consumer() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.subscribe(1)
    client.subscribe(2, schema=wire(FIRST))
    assert errors(client) == [ServerError.IncompatibleSchema]
    client.leave()
    client = cluster.client()
    client.produce(1)
    client.subscribe(1, schema=wire(FIRST))
    client.send("an entry")
    client.leave()
    assert errors(client) == [ServerError.IncompatibleSchema]
    client = cluster.client()
    client.subscribe(1, schema=wire(FIRST))
    assert errors(client) == [ServerError.IncompatibleSchema]
    client.produce(1, schema=wire(FIRST))
    client.subscribe(1, schema=wire(FIRST))
    assert errors(client) == []


def test_get_schema() -> None:
    client = Cluster().client()
    assert get(client).error_code == pb.TopicNotFound
    client.produce(1, schema=wire(FIRST))
    client.produce(2, schema=wire(SECOND))
    assert get(client).schema_version == version_to_bytes(1)
    assert get(client, schema_version=version_to_bytes(0)).schema.schema_data == FIRST.data
    assert get(client, schema_version=version_to_bytes(2)).error_code == pb.TopicNotFound
    assert get(client, schema_version=b"\0\0\0\1").error_code == pb.IncompatibleSchema


def test_the_version_of_messages_without_a_schema_has_type_none() -> None:
    client = Cluster().client()
    client.produce(1, schema=NONE)
    assert versions(client) == [b""]
    answer = get(client, schema_version=b"")
    assert (answer.HasField("error_code"), answer.schema_version, answer.schema.type) == (False, b"", NONE.type)


def test_schemas_wait_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Cluster().client()
    client.produce(1, schema=wire(FIRST))
    session, write = client.session, client.session.write

    def write_much(frame: bytes) -> None:
        write(frame)
        session.is_writable = False

    monkeypatch.setattr(session, "write", write_much)
    client.say(*(commands.encode(pb.CommandGetSchema(request_id=number, topic=str(TOPIC))) for number in (1, 2)))
    assert [answer.request_id for answer in client.take("GET_SCHEMA_RESPONSE")] == [1]
    client.cluster.do(lambda: session.writable(is_writable=True))
    assert [answer.request_id for answer in client.take("GET_SCHEMA_RESPONSE")] == [2]


def test_get_or_create_schema() -> None:
    client = Cluster().client()
    assert get_or_create(client, wire(FIRST)).error_code == pb.TopicNotFound
    client.produce(1)
    assert [get_or_create(client, wire(each)).schema_version for each in (FIRST, SECOND, FIRST)] == list(
        map(version_to_bytes, (0, 1, 0))
    )
    assert get_or_create(client, NONE).schema_version == b""
    assert get_or_create(client, wire(FIRST), "a b//c").error_code == pb.InvalidTopicName


def test_links_bring_schemas_that_clients_may_not_bring() -> None:
    client = Cluster(settings={"isAllowAutoUpdateSchemaEnabled": False, "isSchemaValidationEnforced": True}).client()
    client.produce(1)
    assert get_or_create(client, wire(FIRST)).error_code == pb.IncompatibleSchema
    replicator = "pulsar.repl.jfk-->ewr"
    assert get_or_create(client, wire(FIRST), producer_name=replicator).schema_version == version_to_bytes(0)
    assert get_or_create(client, NONE, producer_name=replicator).schema_version == b""
    assert get_or_create(client, wire(CLASHING), producer_name=replicator).error_code == pb.IncompatibleSchema


def test_partitions_share_their_schemas() -> None:
    cluster = Cluster()
    cluster.do(lambda: cluster.partition(TOPIC, 2))
    client = cluster.client()
    client.topic = TOPIC.partition(0)
    client.produce(1, schema=wire(FIRST))
    client.topic = TOPIC.partition(1)
    client.produce(2, schema=wire(SECOND))
    assert versions(client) == list(map(version_to_bytes, (0, 1)))
    assert get(client).schema.schema_data == SECOND.data
    assert get_or_create(client, wire(FIRST)).schema_version == version_to_bytes(0)


def test_a_closed_producer_is_not_created_by_the_check_of_its_schema() -> None:
    client = Cluster().client()
    body = pb.CommandProducer(topic=str(TOPIC), producer_id=1, request_id=client.request_id(), schema=wire(FIRST))
    client.say(commands.encode(body), commands.close_producer(producer_id=1, request_id=client.request_id()))
    assert client.names() == ["SUCCESS"]
    assert client.session.producers == {}
