"""Avro schemas, and JSON schemas, whose definitions are Avro's."""

from __future__ import annotations

import json
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import fastavro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.spark.read.decoding.codec import Codec, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.schema.info import SchemaInfo
    from magnetar.spark.read.decoding.codec import Decode

    Json = Any

_BINARY: Final[Mapping[str, DataType]] = MappingProxyType(
    {
        "boolean": BooleanType(),
        "int": IntegerType(),
        "long": LongType(),
        "float": FloatType(),
        "double": DoubleType(),
        "string": StringType(),
        "enum": StringType(),
        "bytes": BinaryType(),
        "fixed": BinaryType(),
    }
)
_IN_JSON: Final = MappingProxyType({**_BINARY, "bytes": StringType(), "fixed": StringType()})
"""JSON has no bytes; clients write them as text in several ways."""

_LOGICAL: Final[Mapping[str, DataType]] = MappingProxyType(
    {"date": DateType(), "timestamp-millis": TimestampType(), "timestamp-micros": TimestampType()}
)
_DECIMAL_DIGITS_MAX = 38


class AvroCodec(Codec):
    """Payloads in Avro's binary form."""

    def __init__(self, current: SchemaInfo) -> None:
        """Decode to the type of ``current``; raises ConfigurationError."""
        self._definition = _definition(current)
        self._kind = _Types(_BINARY, logical=True).of(self._definition)

    @property
    def kind(self) -> DataType:
        """See Codec."""
        return self._kind

    def decoder(self, written: SchemaInfo) -> Decode:
        """See Codec. Fields that the writer did not have get their defaults."""
        writer = fastavro.parse_schema(_without_other_logical_types(_definition(written)))
        reader = fastavro.parse_schema(_without_other_logical_types(self._definition))
        return lambda payload: fastavro.schemaless_reader(BytesIO(payload), writer, reader)


class JsonCodec(Codec):
    """Payloads in JSON. Fields that a payload does not have are null, and unknown fields are ignored."""

    def __init__(self, current: SchemaInfo) -> None:
        """Decode to the type of ``current``; raises ConfigurationError."""
        self._kind = _Types(_IN_JSON, logical=False).of(_definition(current))

    @property
    def kind(self) -> DataType:
        """See Codec."""
        return self._kind

    def decoder(self, written: SchemaInfo) -> Decode:
        """See Codec."""
        del written
        return json.loads


class _Types:
    """Spark types of an Avro definition."""

    def __init__(self, plain: Mapping[str, DataType], *, logical: bool) -> None:
        self._plain = plain
        self._logical = logical
        self._named: dict[str, DataType | None] = {}
        """Named types by full and short name; None while one is being read."""

    def of(self, definition: Json) -> DataType:
        if isinstance(definition, list):
            branches = [branch for branch in definition if branch != "null"]
            if len(branches) != 1:
                problem = f"an Avro union of {json.dumps(definition)[:200]} has no Spark type"
                raise unsupported(problem)
            return self.of(branches[0])
        if isinstance(definition, str):
            return self._of_name(definition)
        kind = definition["type"]
        if not isinstance(kind, str) or kind in self._named:
            return self.of(kind)
        logical = self._of_logical(definition) if self._logical else None
        match kind:
            case _ if logical is not None:
                found = logical
            case "record" | "error":
                found = self._of_record(definition)
            case "array":
                found = ArrayType(self.of(definition["items"]))
            case "map":
                found = MapType(StringType(), self.of(definition["values"]))
            case _:
                found = self._of_name(kind)
        if "name" in definition:
            self._name(definition, found)
        return found

    def _of_name(self, name: str) -> DataType:
        if name in self._plain:
            return self._plain[name]
        found = self._named.get(name) or self._named.get(name.rpartition(".")[2])
        if found is None:
            what = "contains itself" if name in self._named else "has no Spark type"
            problem = f"the Avro type {name} {what}"
            raise unsupported(problem)
        return found

    def _of_record(self, definition: Json) -> DataType:
        self._name(definition, None)
        return StructType([StructField(field["name"], self.of(field["type"])) for field in definition["fields"]])

    def _of_logical(self, definition: Json) -> DataType | None:
        name = definition.get("logicalType")
        if name == "decimal" and definition["precision"] <= _DECIMAL_DIGITS_MAX:
            return DecimalType(definition["precision"], definition.get("scale", 0))
        return _LOGICAL.get(name)

    def _name(self, definition: Json, kind: DataType | None) -> None:
        short = definition["name"].rpartition(".")[2]
        names = {short, definition["name"], f"{definition.get('namespace', '')}.{short}"}
        self._named |= dict.fromkeys(names, kind)


def _definition(schema: SchemaInfo) -> Json:
    return json.loads(schema.data)


def _without_other_logical_types(definition: Json) -> Json:
    """Return the definition without logical types that have no Spark type, so that their values stay plain."""
    if isinstance(definition, list):
        return [_without_other_logical_types(each) for each in definition]
    if not isinstance(definition, dict):
        return definition
    logical = definition.get("logicalType")
    is_kept = logical in _LOGICAL or (logical == "decimal" and definition["precision"] <= _DECIMAL_DIGITS_MAX)
    return {
        name: value if name in ("default", "symbols") else _without_other_logical_types(value)
        for name, value in definition.items()
        if name != "logicalType" or is_kept
    }
