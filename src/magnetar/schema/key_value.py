"""Key/value schemas: two schemas in one, inline or separated.

The definition holds those of the key and the value, each behind its length in four bytes, big-endian. The length -1
stands for an absent definition. The types are in the properties, as Pulsar's clients write them. Only clients interpret
whether keys are inline in the payload, which has the same form, or separated from it (``kv.encoding.type``).
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

_ENCODING: Final = "kv.encoding.type"
_SEPARATED: Final = "SEPARATED"
_LENGTH = struct.Struct(">i")
_ABSENT: Final = -1
_PARTS: Final = ("key", "value")
_JSON_TYPES: Final = (SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.PROTOBUF_NATIVE)


def parts_of(info: SchemaInfo) -> tuple[SchemaInfo, SchemaInfo]:
    """Return the schemas of key and value; raises InvalidSchemaError."""
    try:
        key, value = split(info.data)
    except ValueError as error:
        message = f"the key/value definition {error}"
        raise InvalidSchemaError(message) from None
    return _part("key", key or b"", info.properties), _part("value", value or b"", info.properties)


def is_separated(info: SchemaInfo) -> bool:
    """Return whether payloads have values only, and the keys are those of the messages."""
    return info.properties.get(_ENCODING) == _SEPARATED


def joined(key: bytes | None, value: bytes | None) -> bytes:
    """Return the definition that holds two definitions, or the payload with an inline key."""
    return _with_length(key) + _with_length(value)


def split(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Return what ``joined`` has joined; raises ValueError with the rest of a sentence."""
    key, rest = _take(data)
    value, rest = _take(rest)
    if rest:
        message = "has bytes behind the value"
        raise ValueError(message)
    return key, value


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


def _with_length(part: bytes | None) -> bytes:
    return _LENGTH.pack(_ABSENT) if part is None else _LENGTH.pack(len(part)) + part


def _take(data: bytes) -> tuple[bytes | None, bytes]:
    """Split the first part off."""
    if len(data) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + max(length, 0)
        if length >= _ABSENT and end <= len(data):
            return None if length == _ABSENT else data[_LENGTH.size : end], data[end:]
    message = "ends before both its parts do"
    raise ValueError(message)


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
