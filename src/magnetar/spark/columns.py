"""Columns of the rows: those of Pulsar's Spark connector, and those that tell where a message comes from.

A row is a message or, with ``unit=entry``, an entry as it is stored. A query that needs few columns names them in
``schema``, and only these are built.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUE: Final = "value"
KEY: Final = "__key"
TOPIC: Final = "__topic"
MESSAGE_ID: Final = "__messageId"
PUBLISH_TIME: Final = "__publishTime"
EVENT_TIME: Final = "__eventTime"
PROPERTIES: Final = "__messageProperties"
LEDGER_ID: Final = "__ledgerId"
ENTRY_ID: Final = "__entryId"
BATCH_INDEX: Final = "__batchIndex"
PRODUCER_NAME: Final = "__producerName"
SEQUENCE_ID: Final = "__sequenceId"
ORIGIN_CLUSTER: Final = "__originCluster"
ORIGIN_LEDGER_ID: Final = "__originLedgerId"
ORIGIN_ENTRY_ID: Final = "__originEntryId"
HAS_BASE64_KEY: Final = "__hasBase64EncodedKey"
ORDERING_KEY: Final = "__orderingKey"
DELIVER_AT_TIME: Final = "__deliverAtTime"
REPLICATE_TO: Final = "__replicateTo"
MESSAGES: Final = "__messages"
IS_BATCH: Final = "__isBatch"
ENTRY_SIZE: Final = "__entrySize"
UNCOMPRESSED_SIZE: Final = "__uncompressedSize"
COMPRESSION: Final = "__compression"
IS_ENCRYPTED: Final = "__isEncrypted"
SCHEMA_VERSION: Final = "__schemaVersion"
CHUNK_UUID: Final = "__chunkUuid"
CHUNK_ID: Final = "__chunkId"
CHUNKS: Final = "__chunks"


class Unit(StrEnum):
    """The thing that a row holds."""

    MESSAGE = "message"
    ENTRY = "entry"


_MESSAGE_TYPES: Final[Mapping[str, DataType]] = {
    VALUE: BinaryType(),
    KEY: BinaryType(),
    TOPIC: StringType(),
    MESSAGE_ID: BinaryType(),
    PUBLISH_TIME: TimestampType(),
    EVENT_TIME: TimestampType(),
    PROPERTIES: MapType(StringType(), StringType()),
    LEDGER_ID: LongType(),
    ENTRY_ID: LongType(),
    BATCH_INDEX: IntegerType(),
    PRODUCER_NAME: StringType(),
    SEQUENCE_ID: LongType(),
    HAS_BASE64_KEY: BooleanType(),
    ORDERING_KEY: BinaryType(),
    DELIVER_AT_TIME: TimestampType(),
    REPLICATE_TO: ArrayType(StringType()),
    SCHEMA_VERSION: BinaryType(),
    ORIGIN_CLUSTER: StringType(),
    ORIGIN_LEDGER_ID: LongType(),
    ORIGIN_ENTRY_ID: LongType(),
}

_ENTRY_TYPES: Final[Mapping[str, DataType]] = {
    VALUE: BinaryType(),
    TOPIC: StringType(),
    MESSAGE_ID: BinaryType(),
    PUBLISH_TIME: TimestampType(),
    PROPERTIES: MapType(StringType(), StringType()),
    LEDGER_ID: LongType(),
    ENTRY_ID: LongType(),
    PRODUCER_NAME: StringType(),
    SEQUENCE_ID: LongType(),
    MESSAGES: IntegerType(),
    IS_BATCH: BooleanType(),
    ENTRY_SIZE: LongType(),
    UNCOMPRESSED_SIZE: LongType(),
    COMPRESSION: StringType(),
    IS_ENCRYPTED: BooleanType(),
    SCHEMA_VERSION: BinaryType(),
    CHUNK_UUID: StringType(),
    CHUNK_ID: IntegerType(),
    CHUNKS: IntegerType(),
    ORIGIN_CLUSTER: StringType(),
    ORIGIN_LEDGER_ID: LongType(),
    ORIGIN_ENTRY_ID: LongType(),
}

TYPES: Final[Mapping[Unit, Mapping[str, DataType]]] = {Unit.MESSAGE: _MESSAGE_TYPES, Unit.ENTRY: _ENTRY_TYPES}
"""Type of each column."""

_IDENTITY: Final = frozenset({TOPIC, MESSAGE_ID, PUBLISH_TIME, LEDGER_ID, ENTRY_ID, PRODUCER_NAME, SEQUENCE_ID})
_REQUIRED: Final[Mapping[Unit, frozenset[str]]] = {
    Unit.MESSAGE: _IDENTITY | {HAS_BASE64_KEY},
    Unit.ENTRY: _IDENTITY | {VALUE, MESSAGES, IS_BATCH, ENTRY_SIZE, COMPRESSION, IS_ENCRYPTED},
}
"""Columns that are never null."""


def all_columns(unit: Unit = Unit.MESSAGE, value: DataType = TYPES[Unit.MESSAGE][VALUE]) -> StructType:
    """Return the schema of rows with all columns; ``value`` is the type of the values."""
    types = {**TYPES[unit], VALUE: value}
    return StructType([StructField(name, kind, name not in _REQUIRED[unit]) for name, kind in types.items()])


def check_columns(schema: StructType, allowed: StructType) -> None:
    """Raise ConfigurationError if ``schema`` has a column that is not ``allowed``, or with another type."""
    types = {field.name: field.dataType for field in allowed.fields}
    for field in schema.fields:
        kind = types.get(field.name)
        if kind is None:
            message = f"there is no column {field.name}; the columns are {', '.join(types)}"
            raise ConfigurationError(message)
        if field.dataType != kind:
            message = f"column {field.name} has the type {kind.simpleString()}, not {field.dataType.simpleString()}"
            raise ConfigurationError(message)
