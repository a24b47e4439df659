"""Definitions of each type: which are valid, which mean the same, and what hostile ones cost."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from magnetar.base.errors import InvalidSchemaError, ServerError
from magnetar.base.limits import Limit
from magnetar.schema.avro_definition import DEPTH_MAX, LIST_MAX
from magnetar.schema.info import SchemaInfo, SchemaType, version_from_bytes, version_to_bytes
from magnetar.schema.key_value import from_text, joined, to_text
from magnetar.schema.parsing import parse, parse_new
from magnetar.schema.strategy import SchemaCompatibilityStrategy
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.schema.definitions import OPTIONAL, REQUIRED, avro, key_value, protobuf_native, record

INT = SchemaInfo(SchemaType.INT32)


def invalid(info: SchemaInfo) -> InvalidSchemaError:
    with pytest.raises(InvalidSchemaError) as caught:
        parse(info)
    assert caught.value.code is ServerError.IncompatibleSchema
    return caught.value


def test_versions_are_eight_bytes() -> None:
    assert version_to_bytes(258) == b"\0\0\0\0\0\0\1\2"
    assert version_from_bytes(version_to_bytes(258)) == 258
    assert version_from_bytes(b"") is None
    assert version_from_bytes(b"\0\0\0\1") is None


def test_the_types_have_pulsars_numbers() -> None:
    assert [SchemaType(number).name for number in (0, 1, 4, 15, 20, 22)] == [
        "NONE",
        "STRING",
        "AVRO",
        "KEY_VALUE",
        "PROTOBUF_NATIVE",
        "EXTERNAL",
    ]


def test_all_types_of_the_protocol_are_known() -> None:
    numbers = {each for each in pb.Schema.Type.values() if each != pb.Schema.AutoConsume}
    assert numbers == {each.value for each in SchemaType if each >= 0}


@pytest.mark.parametrize("kind", [kind for kind in SchemaType if SchemaType.BOOLEAN <= kind <= SchemaType.TIMESTAMP])
def test_primitive_types_have_no_definition(kind: SchemaType) -> None:
    assert parse(SchemaInfo(kind)).definition is None
    assert str(invalid(SchemaInfo(kind, b"x"))) == f"a {kind.name} schema has no definition, but 1 bytes were found"


@pytest.mark.parametrize("definition", [b"", b"any"])
def test_the_definition_of_an_external_schema_is_not_interpreted(definition: bytes) -> None:
    assert parse(SchemaInfo(SchemaType.EXTERNAL, definition)).definition is None


def test_a_string_schema_of_the_python_client_says_null() -> None:
    parse(SchemaInfo(SchemaType.STRING, b"null"))
    invalid(SchemaInfo(SchemaType.STRING, b"text"))


@pytest.mark.parametrize("kind", [SchemaType.AUTO_CONSUME, SchemaType.AUTO_PUBLISH, SchemaType.AUTO])
def test_types_of_clients_are_never_stored(kind: SchemaType) -> None:
    assert str(invalid(SchemaInfo(kind))) == f"Schema {kind.name} is a client-side schema type"


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (b"", "is no JSON"),
        (b"\xff", "is no JSON"),
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"{}", 'No "type" property'),
        (record({"name": "id", "type": "integer"}), "Could not make an Avro Schema object from integer"),
        (record(REQUIRED, REQUIRED), "already in use"),
        (record({"name": "a b", "type": "int"}), "a b is no name"),
        (record(REQUIRED, name="1st"), "1st is no name"),
        (record({"name": "id", "type": {"type": "enum", "name": "E", "symbols": ["A", "A"]}}), "Duplicate symbol"),
        (record({"name": "\ud800", "type": "int"}), "? is no name"),
    ],
)
def test_avro_definitions_are_checked(definition: bytes, reason: str) -> None:
    assert reason in str(invalid(SchemaInfo(SchemaType.AVRO, definition)))


@pytest.mark.parametrize(
    "definition",
    [
        b'"string"',
        b'["null","int"]',
        record(REQUIRED, name="org.air.Flights$Flight"),
        record({"name": "next", "type": ["null", "Flight"], "default": None}),
        record({"name": "at", "type": {"type": "long", "logicalType": "unknown-millis"}}),
        record({"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": -1}}),
        record({"name": "id", "type": "int", "default": "not an int"}),
    ],
)
def test_what_java_accepts_is_valid(definition: bytes) -> None:
    parse(SchemaInfo(SchemaType.AVRO, definition))
    parse(SchemaInfo(SchemaType.PROTOBUF, definition))


def test_unions_are_for_consumers_only() -> None:
    union, named = SchemaInfo(SchemaType.AVRO, b'["null","int"]'), SchemaInfo(SchemaType.AVRO, b'{"type":"int"}')
    parse_new(key_value(named, named))
    parse_new(SchemaInfo(SchemaType.JSON, union.data))
    for info in (union, key_value(union, named), key_value(named, union)):
        parse(info)
        with pytest.raises(InvalidSchemaError, match="UNION"):
            parse_new(info)


def test_equal_definitions_have_one_fingerprint() -> None:
    first = avro(REQUIRED, OPTIONAL, namespace="air")
    spaced = SchemaInfo(SchemaType.AVRO, json.dumps(json.loads(first.data), indent=2, sort_keys=True).encode())
    full_name = avro(REQUIRED, OPTIONAL, name="air.Flight")
    documented = avro(REQUIRED | {"doc": "a number", "order": "ascending"}, OPTIONAL, namespace="air", doc="flights")
    long_form = avro({"name": "id", "type": {"type": "int"}}, OPTIONAL, namespace="air")
    fingerprint = parse(first).fingerprint
    assert {parse(each).fingerprint for each in (spaced, full_name, documented, long_form)} == {fingerprint}
    assert len({each.digest for each in (first, spaced, full_name, documented, long_form)}) == 5


@pytest.mark.parametrize(
    "other",
    [
        avro(REQUIRED),
        avro(OPTIONAL, REQUIRED),
        avro(REQUIRED, OPTIONAL, name="Aircraft"),
        avro(REQUIRED | {"default": 1}, OPTIONAL),
        avro({"name": "id", "type": {"type": "int", "logicalType": "date"}}, OPTIONAL),
        avro({"name": "id", "type": "long"}, OPTIONAL),
    ],
)
def test_different_definitions_have_different_fingerprints(other: SchemaInfo) -> None:
    assert parse(other).fingerprint != parse(avro(REQUIRED, OPTIONAL)).fingerprint


def test_json_schemas_have_avro_definitions_or_old_documents() -> None:
    parse(SchemaInfo(SchemaType.JSON, record(REQUIRED)))
    parse(SchemaInfo(SchemaType.JSON, b'{"type":"object","id":"urn:jsonschema:air:Flight","properties":{}}'))
    for data in (b"", b"{}", b'{"id":"urn:jsonschema:air:Flight"}', b'{"type":"record"}', b'{"type":1}'):
        invalid(SchemaInfo(SchemaType.JSON, data))
    invalid(SchemaInfo(SchemaType.AVRO, b'{"type":"object"}'))


def test_protobuf_native_definitions_are_descriptors() -> None:
    parse(protobuf_native())
    parse(protobuf_native("Flight"))
    nested = json.loads(protobuf_native("air.Flight").data)
    nested["rootMessageTypeName"] = "air.Flight.Leg"
    parse(SchemaInfo(SchemaType.PROTOBUF_NATIVE, json.dumps(nested).encode()))


def described(*files: tuple[str, list[str]]) -> SchemaInfo:
    """A Protobuf native schema with files that import each other; the first message is in a.proto."""
    described = [FileDescriptorProto(name=name, package=name[0], dependency=imports) for name, imports in files]
    for file in described:
        file.message_type.add(name="M")
    document = {
        "fileDescriptorSet": base64.b64encode(FileDescriptorSet(file=described).SerializeToString()).decode(),
        "rootMessageTypeName": "a.M",
        "rootFileDescriptorName": "a.proto",
    }
    return SchemaInfo(SchemaType.PROTOBUF_NATIVE, json.dumps(document).encode())


def test_files_of_protobuf_native_definitions_have_any_order() -> None:
    files = [("a.proto", ["b.proto", "c.proto"]), ("b.proto", ["c.proto"]), ("c.proto", [])]
    for order in permutations(files):
        parse(described(*order))


def test_files_that_are_missing_or_import_each_other_are_invalid() -> None:
    invalid(described(("a.proto", ["b.proto"])))
    invalid(described(("a.proto", ["b.proto"]), ("b.proto", ["a.proto"])))
    invalid(described(("a.proto", ["a.proto"])))


@pytest.mark.parametrize(
    "change",
    [
        {"rootMessageTypeName": "air.Airport"},
        {"rootMessageTypeName": 7},
        {"rootFileDescriptorName": "other.proto"},
        {"fileDescriptorSet": "AAAA"},
        {"fileDescriptorSet": "no base64!"},
        {"fileDescriptorSet": None},
    ],
)
def test_protobuf_native_definitions_are_checked(change: dict[str, Any]) -> None:
    document = json.loads(protobuf_native().data)
    invalid(SchemaInfo(SchemaType.PROTOBUF_NATIVE, json.dumps({**document, **change}).encode()))
    for name in document:
        rest = {key: value for key, value in document.items() if key != name}
        invalid(SchemaInfo(SchemaType.PROTOBUF_NATIVE, json.dumps(rest).encode()))
    invalid(SchemaInfo(SchemaType.PROTOBUF_NATIVE, b"[]"))


@pytest.mark.parametrize("encoding", ["INLINE", "SEPARATED"])
def test_key_value_schemas_consist_of_two(encoding: str) -> None:
    parsed = parse(key_value(INT, avro(REQUIRED), encoding))
    parts = parsed.definition
    assert parts is not None
    assert (parts.key.info.type, parts.value.info) == (SchemaType.INT32, avro(REQUIRED))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "info",
    [
        SchemaInfo(SchemaType.KEY_VALUE),
        SchemaInfo(SchemaType.KEY_VALUE, joined(b"", b"")),
        SchemaInfo(SchemaType.KEY_VALUE, key_value(INT, INT).data + b"x", key_value(INT, INT).properties),
        SchemaInfo(SchemaType.KEY_VALUE, b"\xff\xff\xff\xfe" * 2, key_value(INT, INT).properties),
        SchemaInfo(SchemaType.KEY_VALUE, b"\x7f\xff\xff\xff" * 2, key_value(INT, INT).properties),
        key_value(SchemaInfo(SchemaType.AVRO, b"{"), INT),
        key_value(key_value(INT, INT), INT),
        key_value(SchemaInfo(SchemaType.AUTO_CONSUME), INT),
    ],
)
def test_key_value_schemas_are_checked(info: SchemaInfo) -> None:
    invalid(info)


def test_absent_definitions_of_key_and_value() -> None:
    parse(SchemaInfo(SchemaType.KEY_VALUE, b"\xff\xff\xff\xff" * 2, key_value(INT, INT).properties))


def test_key_value_definitions_as_text() -> None:
    info = key_value(SchemaInfo(SchemaType.STRING), avro(REQUIRED))
    text = to_text(info)
    assert json.loads(text) == {"key": "", "value": json.loads(record(REQUIRED))}
    back = SchemaInfo(SchemaType.KEY_VALUE, from_text(text), info.properties)
    assert parse(back).conflict(parse(info), SchemaCompatibilityStrategy.FULL) is None
    for wrong in ("", "[]", '{"key":""}'):
        with pytest.raises(InvalidSchemaError):
            from_text(wrong)


def test_half_of_a_surrogate_pair_in_a_key_value_definition_stays_escaped() -> None:
    text = '{"key":"","value":{"type":"record","name":"A","doc":"\\ud800","fields":[]}}'
    properties = {"key.schema.type": "STRING", "value.schema.type": "AVRO"}
    info = SchemaInfo(SchemaType.KEY_VALUE, from_text(text), properties)
    parse(info)
    assert to_text(info) == text


def test_key_value_definitions_of_any_depth_are_shown_or_refused() -> None:
    """Close to the limit of the interpreter, one direction may work and the other may not."""
    properties = {"key.schema.type": "STRING", "value.schema.type": "JSON"}
    limit, shown = sys.getrecursionlimit(), set[str]()
    for depth in range(limit - 200, limit + 1):
        definition = "[" * depth + "]" * depth
        info = SchemaInfo(SchemaType.KEY_VALUE, joined(b"", definition.encode()), properties)
        value = to_text(info).removeprefix('{"key":"","value":').removesuffix("}")
        assert value in (definition, f'"{definition}"')
        shown.add(value[:1])
        with suppress(InvalidSchemaError):
            assert from_text(f'{{"key":"","value":{definition}}}') == info.data
    assert shown == {"[", '"'}


@pytest.mark.parametrize(
    "definition",
    [
        record(*({"name": f"f{number}", "type": "int"} for number in range(LIST_MAX + 1))),
        b'{"type":"array","items":' * (DEPTH_MAX + 1) + b'"int"' + b"}" * (DEPTH_MAX + 1),
    ],
)
@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON])
def test_complex_definitions_are_refused(definition: bytes, kind: SchemaType) -> None:
    assert invalid(SchemaInfo(kind, definition)).limit is Limit.SCHEMA_COMPLEXITY


def test_large_definitions_within_the_limits_are_valid() -> None:
    parse(SchemaInfo(SchemaType.AVRO, record(*({"name": f"f{number}", "type": "int"} for number in range(LIST_MAX)))))
    depth = DEPTH_MAX - 1
    parse(SchemaInfo(SchemaType.AVRO, b'{"type":"array","items":' * depth + b'"int"' + b"}" * depth))


def test_avros_library_is_imported_by_the_first_definition() -> None:
    script = "import magnetar.broker.service, sys; assert 'avro' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
