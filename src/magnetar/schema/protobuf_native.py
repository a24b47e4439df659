"""Definitions of Protobuf native schemas: a set of file descriptors, and the name of one message in it."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from magnetar.base.errors import InvalidSchemaError
from magnetar.schema.definition import Definition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.descriptor import Descriptor

    from magnetar.schema.strategy import SchemaCompatibilityStrategy

_SET, _MESSAGE, _FILE = "fileDescriptorSet", "rootMessageTypeName", "rootFileDescriptorName"


@dataclass(frozen=True, slots=True)
class RootMessage(Definition):
    """The message that a definition describes; Pulsar compares only the names of two messages."""

    name: str

    @classmethod
    def parse(cls, data: bytes) -> RootMessage:
        """Read a definition; raises InvalidSchemaError."""
        return cls(str(root_descriptor(data).full_name))

    def conflict(self, old: Definition, strategy: SchemaCompatibilityStrategy) -> str | None:
        """See Definition."""
        del strategy
        assert isinstance(old, RootMessage)
        return None if old.name == self.name else f"the message changes from {old.name} to {self.name}"


def root_descriptor(data: bytes) -> Descriptor:
    """Return the descriptor of the message that a definition describes; raises InvalidSchemaError."""
    try:
        return _root_message(json.loads(data))
    except KeyError as error:
        message = f"the Protobuf definition lacks {error}"
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error, DecodeError) as error:
        message = f"the Protobuf definition is invalid: {str(error)[:300]}"
    raise InvalidSchemaError(message)


def _root_message(document: dict[str, str]) -> Descriptor:
    files = FileDescriptorSet.FromString(base64.b64decode(document[_SET], validate=True)).file
    name = document[_MESSAGE]
    file = _pool(files).FindFileByName(document[_FILE])
    first, *nested = name.removeprefix(f"{file.package}.").split(".")
    descriptor = file.message_types_by_name[first]
    for each in nested:
        descriptor = descriptor.nested_types_by_name[each]
    return descriptor


def _pool(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    """Return a pool with the files, each added after those that it imports. Java's client sends them in any order."""
    pool, waiting = DescriptorPool(), {file.name: file for file in files}
    while waiting:
        _, file = waiting.popitem()
        stack = [(file, iter(file.dependency))]
        while stack:
            file, imports = stack[-1]
            imported = next((waiting.pop(name) for name in imports if name in waiting), None)
            if imported is not None:
                stack.append((imported, iter(imported.dependency)))
            else:
                pool.Add(file)  # fails if files import each other
                stack.pop()
    return pool
