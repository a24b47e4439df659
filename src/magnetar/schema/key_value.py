"""Key/value schemas: two schemas in one, inline or separated.

The definition holds those of the key and the value, each behind its length in four bytes, big-endian. The length -1
stands for an absent definition. The types are in the properties, as Pulsar's clients write them. Only clients interpret
whether keys are encoded inline in the payload or separated from it (``kv.encoding.type``).
"""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import InvalidSchemaError
from magnetar.schema.info import SchemaInfo, SchemaType

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = struct.Struct(">i")
_PARTS: Final = ("key", "value")
_JSON_TYPES: Final = (SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.PROTOBUF_NATIVE)


def parts_of(info: SchemaInfo) -> tuple[SchemaInfo, SchemaInfo]:
    """Return the schemas of key and value; raises InvalidSchemaError."""
    key, rest = _take(info.data)
    value, rest = _take(rest)
    if rest:
        message = "the key/value definition has bytes behind the value's definition"
        raise InvalidSchemaError(message)
    return _part("key", key, info.properties), _part("value", value, info.properties)


def joined(key: bytes, value: bytes) -> bytes:
    """Return the definition that holds two definitions."""
    return b"".join((_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value))


def to_text(info: SchemaInfo) -> str:
    """Return a definition as the REST API shows it: an object with the definitions of key and value."""
    key, value = map(_shown, parts_of(info))
    return f'{{"key":{key},"value":{value}}}'


def from_text(text: str) -> bytes:
    """Return the definition for a text of the REST API; raises InvalidSchemaError."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or set(document) != set(_PARTS):
            message = "the key/value definition must be an object with the definitions of key and value"
            raise InvalidSchemaError(message)
        key, value = ("" if document[name] == "" else _json(document[name], (", ", ": ")) for name in _PARTS)
    except (ValueError, RecursionError) as error:
        message = f"the key/value definition is no JSON: {error}"
        raise InvalidSchemaError(message) from None
    return joined(key.encode(), value.encode())


def _shown(part: SchemaInfo) -> str:
    """Return the JSON of a definition; a text if it is not JSON, or nested too deeply."""
    text = part.data.decode(errors="replace")
    if part.type in _JSON_TYPES:
        with suppress(ValueError, RecursionError):
            return _json(json.loads(text), (",", ":"))
    return _json(text, (",", ":"))


def _json(value: object, separators: tuple[str, str]) -> str:
    """Return JSON that UTF-8 can encode: half of a surrogate pair is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=separators)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=separators)
    return text


def _take(data: bytes) -> tuple[bytes, bytes]:
    """Split the first definition off."""
    if len(data) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + max(length, 0)
        if length >= -1 and end <= len(data):
            return data[_LENGTH.size : end], data[end:]
    message = "the key/value definition ends before both its parts do"
    raise InvalidSchemaError(message)


def _part(name: str, data: bytes, properties: Mapping[str, str]) -> SchemaInfo:
    named = properties.get(f"{name}.schema.type", "")
    try:
        kind = SchemaType[named]
    except KeyError:
        message = f"the key/value schema names no known type of the {name}: {named[:100]!r}"
        raise InvalidSchemaError(message) from None
    if kind is SchemaType.KEY_VALUE:
        message = f"the {name} of a key/value schema cannot be a key/value schema"
        raise InvalidSchemaError(message)
    return SchemaInfo(kind, data)
