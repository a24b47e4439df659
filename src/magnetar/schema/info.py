"""Schemas of clients, and their versions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION_BYTES = 8


class SchemaType(IntEnum):
    """Pulsar's types of schemas; those that are not negative have the same numbers on the wire."""

    AUTO_PUBLISH = -4
    AUTO_CONSUME = -3
    AUTO = -2
    BYTES = -1
    NONE = 0
    STRING = 1
    JSON = 2
    PROTOBUF = 3
    AVRO = 4
    BOOLEAN = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FLOAT = 10
    DOUBLE = 11
    DATE = 12
    TIME = 13
    TIMESTAMP = 14
    KEY_VALUE = 15
    INSTANT = 16
    LOCAL_DATE = 17
    LOCAL_TIME = 18
    LOCAL_DATE_TIME = 19
    PROTOBUF_NATIVE = 20
    EXTERNAL = 22
    """A schema in a registry outside of Pulsar (PIP-420); only its type is compared."""


ABSENT_TYPES = frozenset({SchemaType.NONE, SchemaType.BYTES})
"""Types without a schema."""


@dataclass(frozen=True, slots=True)
class SchemaInfo:
    """One schema: its type, its definition in the format of the type, and properties that clients interpret."""

    type: SchemaType
    data: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the definition, in hexadecimal. Equal schemas of one type can have different digests."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of the definition and the properties."""
        return len(self.data) + sum(len(key) + len(value) for key, value in self.properties.items())


def version_to_bytes(version: int) -> bytes:
    """Encode a version as Pulsar does: eight bytes, big-endian."""
    return version.to_bytes(_VERSION_BYTES, signed=True)


def version_from_bytes(encoded: bytes) -> int | None:
    """Decode a version; None for bytes that are no version."""
    return int.from_bytes(encoded, signed=True) if len(encoded) == _VERSION_BYTES else None
