"""Protobuf native schemas: payloads are messages of a type whose descriptor is in the schema."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from magnetar.schema.protobuf_native import root_descriptor
from magnetar.spark.read.decoding.codec import Codec, unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from magnetar.schema.info import SchemaInfo
    from magnetar.spark.read.decoding.codec import Decode

    Value = Any

_KINDS: Final[Mapping[int, DataType]] = MappingProxyType(
    {
        Field.CPPTYPE_BOOL: BooleanType(),
        Field.CPPTYPE_INT32: IntegerType(),
        Field.CPPTYPE_INT64: LongType(),
        Field.CPPTYPE_UINT32: LongType(),
        Field.CPPTYPE_UINT64: DecimalType(20, 0),
        Field.CPPTYPE_FLOAT: FloatType(),
        Field.CPPTYPE_DOUBLE: DoubleType(),
        Field.CPPTYPE_ENUM: StringType(),
    }
)


class ProtobufCodec(Codec):
    """Fields by name. A field without presence has its default; another one that is not set is null."""

    def __init__(self, current: SchemaInfo) -> None:
        """Decode to the type of ``current``; raises ConfigurationError."""
        self._kind = _struct(root_descriptor(current.data), ())

    @property
    def kind(self) -> DataType:
        """See Codec."""
        return self._kind

    def decoder(self, written: SchemaInfo) -> Decode:
        """See Codec."""
        message = GetMessageClass(root_descriptor(written.data))
        return lambda payload: _values(message.FromString(payload))


def _struct(descriptor: Descriptor, outer: tuple[str, ...]) -> StructType:
    if descriptor.full_name in outer:
        problem = f"the Protobuf message {descriptor.full_name} contains itself"
        raise unsupported(problem)
    within = (*outer, descriptor.full_name)
    return StructType([StructField(field.name, _kind(field, within)) for field in descriptor.fields])


def _kind(field: Field, within: tuple[str, ...]) -> DataType:
    if _is_map(field):
        return MapType(_single(_of_entry(field, "key"), within), _single(_of_entry(field, "value"), within))
    return ArrayType(_single(field, within)) if field.is_repeated else _single(field, within)


def _single(field: Field, within: tuple[str, ...]) -> DataType:
    if field.message_type is not None:
        return _struct(field.message_type, within)
    if field.cpp_type == Field.CPPTYPE_STRING:
        return BinaryType() if field.type == Field.TYPE_BYTES else StringType()
    return _KINDS[field.cpp_type]


def _is_map(field: Field) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _of_entry(field: Field, name: str) -> Field:
    """Return a field of the entries of a map."""
    assert field.message_type is not None
    return field.message_type.fields_by_name[name]


def _values(message: Message) -> dict[str, Value]:
    return {field.name: _value(field, message) for field in cast("Descriptor", message.DESCRIPTOR).fields}


def _value(field: Field, message: Message) -> Value:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        inner = _of_entry(field, "value")
        return [(key, _plain(inner, each)) for key, each in value.items()]
    return [_plain(field, each) for each in value] if field.is_repeated else _plain(field, value)


def _plain(field: Field, value: Value) -> Value:
    if field.message_type is not None:
        return _values(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value
