"""Rows as messages. Pure."""

from __future__ import annotations

import base64
import hashlib
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, MapType, StringType, TimestampType

from magnetar.base.errors import ConfigurationError, MagnetarError
from magnetar.spark import columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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


class EntryFields(NamedTuple):
    """Metadata that all messages of an entry share."""

    publish_time: int | None = None
    """Milliseconds since 1970; None: the time at which the entry is built."""
    deliver_at_time: int = 0
    """Milliseconds since 1970; 0 for none."""
    replicate_to: tuple[str, ...] = ()
    """The only clusters to which the messages are replicated; empty for no restriction."""
    schema_version: bytes | None = None
    """Version of the schema in the cluster of the target; None for none."""


_DEFAULT_FIELDS: Final = EntryFields()


class Row(NamedTuple):
    """A row to publish."""

    topic: str | None
    value: bytes | None
    key: bytes | None
    event_time: int
    """Milliseconds since 1970; 0 for none."""
    properties: Sequence[tuple[str, str]]
    has_text_key: bool = False
    """Whether the key is text. Others are bytes, which Pulsar's clients encode in base64."""
    ordering_key: bytes | None = None
    entry_fields: EntryFields = _DEFAULT_FIELDS

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


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a record batch of a schema that ``check_columns`` has accepted, or of one with all metadata.

    Raises UnwritableRowError for an event time or a property that a message cannot have.
    """
    values, keys = (_bytes(batch, name) for name in (columns.VALUE, columns.KEY))
    return map(
        Row,
        _values(batch, columns.TOPIC),
        values,
        keys,
        _times(batch, columns.EVENT_TIME),
        _properties(batch),
        _have_text_keys(batch),
        _values(batch, columns.ORDERING_KEY),
        _entry_fields(batch),
    )


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


def _values(batch: pa.RecordBatch, name: str) -> Iterable[Any]:
    return batch.column(name).to_pylist() if name in batch.schema.names else repeat(None)


def _have_text_keys(batch: pa.RecordBatch) -> Iterable[bool]:
    """Return whether keys are text: as a column states it, or because they are strings."""
    names = batch.schema.names
    if columns.HAS_BASE64_KEY in names:
        return [not encoded for encoded in batch.column(columns.HAS_BASE64_KEY).to_pylist()]
    kind = batch.schema.field(columns.KEY).type if columns.KEY in names else pa.binary()
    return repeat(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _entry_fields(batch: pa.RecordBatch) -> Iterable[EntryFields]:
    names = batch.schema.names
    if columns.PUBLISH_TIME not in names:
        return repeat(_DEFAULT_FIELDS)
    clusters = (tuple(found or ()) for found in _values(batch, columns.REPLICATE_TO))
    return map(
        EntryFields,
        _times(batch, columns.PUBLISH_TIME),
        _times(batch, columns.DELIVER_AT_TIME),
        clusters,
        _values(batch, columns.SCHEMA_VERSION),
    )


def _times(batch: pa.RecordBatch, name: str) -> Sequence[int]:
    """Return times in milliseconds since 1970; 0 for none."""
    if name not in batch.schema.names:
        return [0] * batch.num_rows
    times = pc.floor_temporal(batch.column(name), unit="millisecond").cast(pa.timestamp("ms", "UTC"))
    numbers = times.cast(pa.int64()).fill_null(0)
    if batch.num_rows and pc.min(numbers).as_py() < 0:
        message = f"column {name} has a time before 1970, which Pulsar's protocol cannot express"
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
