"""Columns of the rows: those of Pulsar's Spark connector, and those that tell where a message comes from.

A query that needs few columns names them in ``schema``, and only these are built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
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

TYPES: Final[Mapping[str, DataType]] = {
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
    ORIGIN_CLUSTER: StringType(),
    ORIGIN_LEDGER_ID: LongType(),
    ORIGIN_ENTRY_ID: LongType(),
}
"""Type of each column."""

_REQUIRED: Final = frozenset({TOPIC, MESSAGE_ID, PUBLISH_TIME, LEDGER_ID, ENTRY_ID, PRODUCER_NAME, SEQUENCE_ID})
"""Columns that are never null."""


def all_columns() -> StructType:
    """Return the schema of rows with all columns."""
    return StructType([StructField(name, kind, name not in _REQUIRED) for name, kind in TYPES.items()])


def check_columns(schema: StructType) -> None:
    """Raise ConfigurationError if ``schema`` has a column that the source does not have, or with another type."""
    for field in schema.fields:
        kind = TYPES.get(field.name)
        if kind is None:
            message = f"there is no column {field.name}; the columns are {', '.join(TYPES)}"
            raise ConfigurationError(message)
        if field.dataType != kind:
            message = f"column {field.name} has the type {kind.simpleString()}, not {field.dataType.simpleString()}"
            raise ConfigurationError(message)
