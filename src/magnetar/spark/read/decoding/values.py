"""Values of payloads, each decoded with the version of the schema that its message names."""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from magnetar.base.errors import ConfigurationError, InvalidSchemaError, RemoteProtocolError
from magnetar.schema.info import ABSENT_TYPES, SchemaInfo, SchemaType, version_from_bytes
from magnetar.schema.key_value import is_separated, joined
from magnetar.spark.read.decoding.avro import AvroCodec, JsonCodec
from magnetar.spark.read.decoding.codec import Codec, unsupported
from magnetar.spark.read.decoding.key_value import KeyValueCodec
from magnetar.spark.read.decoding.protobuf import ProtobufCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.spark.read.decoding.codec import Decode

    Value = Any

_PRIMITIVES: Final[Mapping[SchemaType, tuple[DataType, str]]] = MappingProxyType(
    {
        SchemaType.BOOLEAN: (BooleanType(), ">?"),
        SchemaType.INT8: (ByteType(), ">b"),
        SchemaType.INT16: (ShortType(), ">h"),
        SchemaType.INT32: (IntegerType(), ">i"),
        SchemaType.INT64: (LongType(), ">q"),
        SchemaType.FLOAT: (FloatType(), ">f"),
        SchemaType.DOUBLE: (DoubleType(), ">d"),
    }
)


class _Plain(Codec):
    """Payloads of a type that needs no definition."""

    def __init__(self, kind: DataType, decode: Decode) -> None:
        self._kind = kind
        self._decode = decode

    @property
    def kind(self) -> DataType:
        """See Codec."""
        return self._kind

    def decoder(self, written: SchemaInfo) -> Decode:
        """See Codec."""
        del written
        return self._decode


def codec_of(current: SchemaInfo) -> Codec:
    """Return the codec for the type of a schema; raises ConfigurationError for one that is not supported."""
    match current.type:
        case SchemaType.AVRO:
            return AvroCodec(current)
        case SchemaType.JSON:
            return JsonCodec(current)
        case SchemaType.PROTOBUF_NATIVE:
            return ProtobufCodec(current)
        case SchemaType.KEY_VALUE:
            return _key_value_codec(current)
    return _plain_codec(current)


def _plain_codec(current: SchemaInfo) -> Codec:
    if current.type is SchemaType.STRING:
        return _Plain(StringType(), bytes.decode)
    if current.type in ABSENT_TYPES:
        return _Plain(BinaryType(), bytes)
    if current.type not in _PRIMITIVES:
        problem = f"schemas of type {current.type.name} are not supported"
        raise unsupported(problem)
    kind, form = _PRIMITIVES[current.type]
    unpack = struct.Struct(form).unpack
    return _Plain(kind, lambda payload: unpack(payload)[0])


def _key_value_codec(current: SchemaInfo) -> Codec:
    try:
        return KeyValueCodec(current, codec_of)
    except InvalidSchemaError as error:
        raise unsupported(str(error)) from None


def common_type(schemas: Mapping[str, SchemaInfo]) -> DataType:
    """Return the type of the values of all topics; raises ConfigurationError if they differ."""
    kinds = {topic: codec_of(schema).kind for topic, schema in schemas.items()}
    if not kinds:
        message = "decode=true: no topic exists yet, so the column value has no type"
        raise ConfigurationError(message)
    first, *others = kinds
    for other in others:
        if kinds[other] != kinds[first]:
            problem = f"the schemas of {first} and {other} have different types"
            raise unsupported(problem)
    return kinds[first]


class Decoder:
    """The decoders of the versions of one topic's schema."""

    def __init__(self, current: SchemaInfo, fetch: Callable[[int], SchemaInfo]) -> None:
        """Decode to the type of ``current``; ``fetch`` returns a version of the schema. Raises ConfigurationError."""
        self._current = current
        self._codec = codec_of(current)
        self._fetch = fetch
        self._decoders: dict[bytes, Decode] = {}
        self._separated: set[bytes] = set()
        """Versions whose keys are those of the messages."""

    @property
    def has_keys(self) -> bool:
        """Whether values have a key, which may be that of the message."""
        return self._current.type is SchemaType.KEY_VALUE

    @property
    def kind(self) -> DataType:
        """The type of the values."""
        return self._codec.kind

    def value(self, payload: bytes | None, version: bytes, key: bytes | None = None) -> Value:
        """Return the value of a payload that was written with a version, or with none: then it is the current one's.

        ``key`` is that of the message, needed only with ``has_keys``. Null gives null, or a value with this key. Raises
        RemoteProtocolError for a payload that does not match its schema, and as ``fetch``.
        """
        if payload is None and not self.has_keys:
            return None
        decode = self._decoders.get(version)
        if decode is None:
            written = self._written(version)
            decode = self._decoders[version] = self._codec.decoder(written)
            if self.has_keys and is_separated(written):
                self._separated.add(version)
        if version in self._separated:
            payload = joined(key, payload)
        if payload is None:
            return None
        try:
            return decode(payload)
        except Exception as error:  # libraries raise errors of many types
            schema = f"version {version_from_bytes(version)} of its schema" if version else "the schema of its topic"
            message = f"a payload of {len(payload)} bytes does not match {schema}: {type(error).__name__}: {error}"
            raise RemoteProtocolError(message) from error

    def _written(self, version: bytes) -> SchemaInfo:
        if not version:
            return self._current
        number = version_from_bytes(version)
        if number is None:
            message = f"schema version {version.hex()} is not a number of eight bytes"
            raise RemoteProtocolError(message)
        written = self._fetch(number)
        if written.type is not self._current.type:
            message = f"version {number} of the schema is {written.type.name}, not {self._current.type.name}"
            raise RemoteProtocolError(message)
        return written
