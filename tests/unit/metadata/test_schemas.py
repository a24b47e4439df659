"""Stored schemas: versions, deletions, and the memory that they take."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import CorruptionError, StorageError
from magnetar.base.names import TopicName
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.schemas import STORED_SIZE, StoredSchema, StoredSchemas
from magnetar.metadata.store import Put
from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.parsing import parse
from magnetar.sim.virtual.loop import HandClock, HandLoop

TOPIC = TopicName("persistent", "public", "default", "a/b.c")
OTHER = TopicName("persistent", "public", "default", "other")
TEXT = SchemaInfo(SchemaType.STRING, properties={"key": "välue"})
RECORD = SchemaInfo(SchemaType.AVRO, b'{"type":"record",\n"name":"R","fields":[]}')


@pytest.fixture
def store() -> MemoryMetadataStore:
    return MemoryMetadataStore(HandClock(HandLoop()))


def add(schemas: StoredSchemas, topic: TopicName, info: SchemaInfo) -> int:
    return schemas.add(topic, info, parse(info).fingerprint)[0]


def test_versions_count_from_zero(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    assert schemas.versions(TOPIC) == []
    assert [add(schemas, TOPIC, info) for info in (TEXT, RECORD)] == [0, 1]
    assert add(schemas, OTHER, RECORD) == 0
    first, second = schemas.versions(TOPIC)
    assert schemas.read(TOPIC, first) == StoredSchema(0, TEXT, 1_700_000_000_000)
    assert schemas.read(TOPIC, second) == StoredSchema(1, RECORD, 1_700_000_000_000)
    assert (second.digest, second.fingerprint) == (RECORD.digest, parse(RECORD).fingerprint)
    assert StoredSchemas(store.reopened()).versions(TOPIC) == [first, second]


def test_versions_are_in_order(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    for number in range(12):
        assert add(schemas, TOPIC, SchemaInfo(SchemaType.STRING, properties={"n": str(number)})) == number
    assert [each.number for each in schemas.versions(TOPIC)] == list(range(12))


def test_partitions_share_the_schemas_of_their_topic(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    add(schemas, TOPIC.partition(3), TEXT)
    assert len(schemas.versions(TOPIC)) == len(schemas.versions(TOPIC.partition(0))) == 1


def test_a_deletion_takes_a_number(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    add(schemas, TOPIC, TEXT)
    assert schemas.delete(TOPIC)[0] == 1
    assert schemas.versions(TOPIC) == []
    assert schemas.delete(TOPIC)[0] == 2
    assert add(schemas, TOPIC, TEXT) == 3
    assert [each.number for each in StoredSchemas(store.reopened()).versions(TOPIC)] == [3]


def test_what_is_forgotten_begins_again(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    add(schemas, TOPIC, TEXT)
    add(schemas, OTHER, TEXT)
    schemas.delete(TOPIC)
    schemas.forget(TOPIC)
    assert add(schemas, TOPIC, TEXT) == 0
    assert len(schemas.versions(OTHER)) == 1


def test_the_memory_is_counted(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    add(schemas, TOPIC, RECORD)
    add(schemas, TOPIC, TEXT)
    add(schemas, OTHER, RECORD)
    record = len("{}\n") + len(RECORD.data) + STORED_SIZE
    text = len(json.dumps(dict(TEXT.properties), separators=(",", ":"))) + 1 + STORED_SIZE
    assert (schemas.size_of(TOPIC), schemas.size) == (record + text, 2 * record + text)
    assert StoredSchemas(store.reopened()).size == schemas.size
    schemas.forget(TOPIC)
    assert (schemas.size_of(TOPIC), schemas.size) == (0, record)


def test_a_damaged_schema_is_reported(store: MemoryMetadataStore) -> None:
    schemas = StoredSchemas(store)
    add(schemas, OTHER, TEXT)
    (version,) = schemas.versions(OTHER)
    store.commit([Put(f"/schemas/public/default/persistent/other/{version.name}", b"{")])
    with pytest.raises(CorruptionError, match=r"/schemas/public/default/persistent/other/0000000000\.STRING\."):
        schemas.read(OTHER, version)
    assert issubclass(CorruptionError, StorageError)
