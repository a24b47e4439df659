"""Schemas with a parsed and valid definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import InvalidSchemaError
from magnetar.schema.definition import Definition
from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.json_document import JsonDocument
from magnetar.schema.key_value import parts_of
from magnetar.schema.protobuf_native import RootMessage
from magnetar.schema.strategy import SchemaCompatibilityStrategy as Strategy

if TYPE_CHECKING:
    from magnetar.schema.avro_definition import AvroDefinition

_AVRO: Final = frozenset({SchemaType.AVRO, SchemaType.PROTOBUF})
"""Types with an Avro definition."""

_CLIENT_SIDE: Final = frozenset({SchemaType.AUTO, SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH})

_ANY_DEFINITION: Final = frozenset({SchemaType.BYTES, SchemaType.EXTERNAL})
"""Types whose definition is not interpreted."""

_NO_DEFINITION: Final = b"null"
"""The definition of a string schema of the Python client; other clients send none."""


@dataclass(frozen=True, slots=True)
class ParsedSchema:
    """A schema with its definition; the definition is None for primitive types."""

    info: SchemaInfo
    definition: Definition | None

    @property
    def fingerprint(self) -> str:
        """Equal for equivalent schemas of one type."""
        return (self.definition and self.definition.fingerprint) or self.info.digest

    def conflict(self, old: ParsedSchema, strategy: Strategy) -> str | None:
        """Return the reason why this schema may not follow ``old``, None if it may."""
        kind, old_kind = self.info.type, old.info.type
        if kind is not old_kind:
            return f"Incompatible schema: exists schema type {old_kind.name}, new schema type {kind.name}"
        if strategy is Strategy.ALWAYS_INCOMPATIBLE:
            return "no other schema is allowed"
        if self.definition is None or old.definition is None:
            return None
        return self.definition.conflict(old.definition, strategy)


@dataclass(frozen=True, slots=True)
class KeyValueParts(Definition):
    """The schemas of a key/value schema."""

    key: ParsedSchema
    value: ParsedSchema

    def conflict(self, old: Definition, strategy: Strategy) -> str | None:
        """See Definition."""
        assert isinstance(old, KeyValueParts)
        return self.key.conflict(old.key, strategy) or self.value.conflict(old.value, strategy)


def parse(info: SchemaInfo) -> ParsedSchema:
    """Parse a schema; raises InvalidSchemaError if its definition violates the rules of its type.

    The work is proportional to the definition, some seconds for the largest: do not call this on an event loop.
    """
    kind = info.type
    if kind in _CLIENT_SIDE:
        message = f"Schema {kind.name} is a client-side schema type"
        raise InvalidSchemaError(message)
    if kind is SchemaType.KEY_VALUE:
        key, value = parts_of(info)
        return ParsedSchema(info, KeyValueParts(parse(key), parse(value)))
    if kind in _AVRO:
        return ParsedSchema(info, _avro(info))
    if kind is SchemaType.JSON:
        return ParsedSchema(info, _json(info))
    if kind is SchemaType.PROTOBUF_NATIVE:
        return ParsedSchema(info, RootMessage.parse(info.data))
    if kind in _ANY_DEFINITION:
        return ParsedSchema(info, None)
    if info.data and not (kind is SchemaType.STRING and info.data == _NO_DEFINITION):
        message = f"a {kind.name} schema has no definition, but {len(info.data)} bytes were found"
        raise InvalidSchemaError(message)
    return ParsedSchema(info, None)


def parse_new(info: SchemaInfo) -> ParsedSchema:
    """Parse a schema that is to be registered; raises InvalidSchemaError also if Pulsar's clients cannot use it."""
    parsed = parse(info)
    definition = parsed.definition
    parts = (definition.key, definition.value) if isinstance(definition, KeyValueParts) else (parsed,)
    if any(each.info.type is SchemaType.AVRO and each.definition and each.definition.is_union for each in parts):
        message = "Avro schema typed [UNION] is not supported"
        raise InvalidSchemaError(message)
    return parsed


def _avro(info: SchemaInfo) -> AvroDefinition:
    from magnetar.schema.avro_definition import AvroDefinition  # noqa: PLC0415 - imports Avro's library

    return AvroDefinition.parse(info.data)


def _json(info: SchemaInfo) -> AvroDefinition | JsonDocument:
    try:
        return _avro(info)
    except InvalidSchemaError as error:
        document = None if error.limit else JsonDocument.parse(info.data)
        if document is None:
            raise
        return document
