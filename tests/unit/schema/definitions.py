"""Definitions of schemas for tests."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.key_value import joined

REQUIRED = {"name": "id", "type": "int"}
OPTIONAL = {"name": "note", "type": ["null", "string"], "default": None}
ADDED_REQUIRED = {"name": "added", "type": "string"}


def record(*fields: dict[str, Any], name: str = "Flight", **properties: object) -> bytes:
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **properties}).encode()


def avro(*fields: dict[str, Any], name: str = "Flight", **properties: object) -> SchemaInfo:
    return SchemaInfo(SchemaType.AVRO, record(*fields, name=name, **properties))


def protobuf_native(message: str = "air.Flight", *, fields: int = 1, file: str = "flight.proto") -> SchemaInfo:
    package, _, local = message.rpartition(".")
    described = FileDescriptorProto(name="flight.proto", package=package, dependency=["base.proto"], syntax="proto3")
    outer = described.message_type.add(name=local)
    outer.nested_type.add(name="Leg")
    for number in range(1, fields + 1):
        outer.field.add(
            name=f"f{number}",
            number=number,
            type=FieldDescriptorProto.TYPE_INT32,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    files = FileDescriptorSet(file=[described, FileDescriptorProto(name="base.proto", syntax="proto3")])
    document = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": message,
        "rootFileDescriptorName": file,
    }
    return SchemaInfo(SchemaType.PROTOBUF_NATIVE, json.dumps(document).encode())


def key_value(key: SchemaInfo, value: SchemaInfo, encoding: str = "INLINE") -> SchemaInfo:
    properties = {
        "key.schema.name": "",
        "key.schema.type": key.type.name,
        "key.schema.properties": "{}",
        "value.schema.name": "",
        "value.schema.type": value.type.name,
        "value.schema.properties": "{}",
        "kv.encoding.type": encoding,
    }
    return SchemaInfo(SchemaType.KEY_VALUE, joined(key.data, value.data), properties)
