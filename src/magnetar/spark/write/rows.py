"""Rows as messages. Pure."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, MapType, StringType, TimestampType

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.spark import columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import DataType, StructType

_TEXT_OR_BYTES: Final = (BinaryType, StringType)

_KINDS: Final[Mapping[str, tuple[type[DataType], ...]]] = {
    columns.VALUE: _TEXT_OR_BYTES,
    columns.KEY: _TEXT_OR_BYTES,
    columns.TOPIC: (StringType,),
    columns.EVENT_TIME: (TimestampType,),
    columns.PROPERTIES: (MapType,),
}
"""The columns that can be written, and their types."""


_SHOWN_MAX: Final = 100
"""Maximum number of bytes of a key in an error."""


class UnwritableRowError(MagnetarError):
    """A row is no valid message; the text says why."""


class Row(NamedTuple):
    """A row to publish."""

    topic: str | None
    value: bytes | None
    key: bytes | None
    event_time: int
    """Milliseconds since 1970; 0 for none."""
    properties: Sequence[tuple[str, str]]

    def digest(self) -> bytes:
        """Return a digest of the message, which does not depend on the order of its properties or on the topic."""
        parts = [self.value, self.key, b"%d" % self.event_time]
        parts += [text.encode() for pair in sorted(self.properties) for text in pair]
        state = hashlib.blake2b(digest_size=16)
        for part in parts:
            state.update(b"-" if part is None else b"%d:" % len(part))
            state.update(part or b"")
        return state.digest()


def check_columns(schema: StructType, topic: str) -> None:
    """Raise ConfigurationError if rows of ``schema`` cannot be written; ``topic`` is the option, which may be empty."""
    for field in schema.fields:
        kinds = _KINDS.get(field.name)
        if kinds is None:
            message = (
                f"column {field.name} cannot be written; columns of a message are {', '.join(_KINDS)}"
                f'\nhint: leave it out, for example with drop("{field.name}")'
            )
            raise ConfigurationError(message)
        if not isinstance(field.dataType, kinds) or _is_other_map(field.dataType):
            wanted = " or ".join("map<string,string>" if kind is MapType else kind.typeName() for kind in kinds)
            message = f"column {field.name} has the type {field.dataType.simpleString()}, not {wanted}"
            raise ConfigurationError(message)
    names = schema.fieldNames()
    if columns.VALUE not in names:
        message = (
            f"there is no column {columns.VALUE}\nhint: for rows of several columns, write to_json(struct(*)) AS value"
        )
        raise ConfigurationError(message)
    if bool(topic) == (columns.TOPIC in names):
        message = f"name the topic either with the option topic or with a column {columns.TOPIC}"
        raise ConfigurationError(message)


def has_text_keys(schema: StructType) -> bool:
    """Return whether keys are strings. Others are bytes, which Pulsar's clients encode in base64."""
    return columns.KEY in schema.fieldNames() and isinstance(schema[columns.KEY].dataType, StringType)


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a record batch of a schema that ``check_columns`` has accepted.

    Raises UnwritableRowError for an event time or a property that a message cannot have.
    """
    count = batch.num_rows
    values, keys = (_bytes(batch, name) for name in (columns.VALUE, columns.KEY))
    topics = batch.column(columns.TOPIC).to_pylist() if columns.TOPIC in batch.schema.names else [None] * count
    return map(Row, topics, values, keys, _event_times(batch), _properties(batch))


def key_text(key: bytes, *, is_text: bool) -> str:
    """Return a key as ``partition_key`` has it; raises UnwritableRowError for a string that is not UTF-8."""
    try:
        return key.decode() if is_text else base64.b64encode(key).decode()
    except UnicodeDecodeError:
        message = f"key {key[:_SHOWN_MAX]!r} is not UTF-8\nhint: write the column {columns.KEY} as binary"
        raise UnwritableRowError(message) from None


def _is_other_map(kind: DataType) -> bool:
    return isinstance(kind, MapType) and not (
        isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    )


def _bytes(batch: pa.RecordBatch, name: str) -> Sequence[bytes | None]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    found: list[bytes | None] = pc.cast(batch.column(name), pa.large_binary()).to_pylist()
    return found


def _event_times(batch: pa.RecordBatch) -> Sequence[int]:
    if columns.EVENT_TIME not in batch.schema.names:
        return [0] * batch.num_rows
    times = pc.floor_temporal(batch.column(columns.EVENT_TIME), unit="millisecond").cast(pa.timestamp("ms", "UTC"))
    numbers = times.cast(pa.int64()).fill_null(0)
    if batch.num_rows and pc.min(numbers).as_py() < 0:
        message = f"column {columns.EVENT_TIME} has a time before 1970, which Pulsar's protocol cannot express"
        raise UnwritableRowError(message)
    found: list[int] = numbers.to_pylist()
    return found


def _properties(batch: pa.RecordBatch) -> Sequence[Sequence[tuple[str, str]]]:
    if columns.PROPERTIES not in batch.schema.names:
        return [()] * batch.num_rows
    column = batch.column(columns.PROPERTIES)
    if column.items.null_count:
        message = f"column {columns.PROPERTIES} has a property whose value is null"
        raise UnwritableRowError(message)
    return [found or () for found in column.to_pylist()]
