"""Which schema may follow which, for each type and strategy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from magnetar.base.errors import IncompatibleSchemaError, InvalidSchemaError
from magnetar.base.limits import Limit
from magnetar.schema import avro_definition
from magnetar.schema.compatibility import check, strategy_for_consumers
from magnetar.schema.info import SchemaInfo, SchemaType
from magnetar.schema.parsing import parse
from magnetar.schema.strategy import SchemaCompatibilityStrategy as Strategy
from tests.unit.schema.definitions import ADDED_REQUIRED, OPTIONAL, REQUIRED, avro, key_value, protobuf_native, record

DOCUMENT = SchemaInfo(SchemaType.JSON, b'{"type":"object","id":"urn:jsonschema:Flight"}')
INT, STRING = SchemaInfo(SchemaType.INT32), SchemaInfo(SchemaType.STRING)
BASE = avro(REQUIRED)
CHECKED = [strategy for strategy in Strategy if strategy.reads_old or strategy.reads_new]


def is_compatible(old: SchemaInfo, new: SchemaInfo, strategy: Strategy) -> bool:
    try:
        check([parse(old)], parse(new), strategy)
    except IncompatibleSchemaError:
        return False
    return True


def allowed(old: SchemaInfo, new: SchemaInfo) -> set[str]:
    """The strategies, without transitive ones, that allow ``new`` after ``old``."""
    return {
        strategy.value
        for strategy in (Strategy.BACKWARD, Strategy.FORWARD, Strategy.FULL)
        if is_compatible(old, new, strategy)
    }


BACKWARD, FORWARD, ALL, NONE = {"BACKWARD"}, {"FORWARD"}, {"BACKWARD", "FORWARD", "FULL"}, set[str]()


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (avro(REQUIRED, OPTIONAL), ALL),
        (avro(REQUIRED, ADDED_REQUIRED), FORWARD),
        (avro(), BACKWARD),
        (avro({"name": "id", "type": "long"}), BACKWARD),
        (avro({"name": "id", "type": "string"}), NONE),
        (avro({"name": "number", "type": "int"}), NONE),
        (avro({"name": "number", "type": "int", "aliases": ["id"]}), BACKWARD),
        (avro({"name": "id", "type": ["null", "int"]}), BACKWARD),
        (avro(REQUIRED, name="Aircraft"), ALL),
        (avro(REQUIRED | {"doc": "a number"}), ALL),
    ],
)
@pytest.mark.parametrize("kind", [SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF])
def test_avro(new: SchemaInfo, expected: set[str], kind: SchemaType) -> None:
    assert allowed(SchemaInfo(kind, BASE.data), SchemaInfo(kind, new.data)) == expected


def enum(*symbols: str, name: str = "E", **properties: object) -> SchemaInfo:
    return avro({"name": "e", "type": {"type": "enum", "name": name, "symbols": symbols, **properties}})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (enum("A"), enum("A", "B"), ALL),
        (enum("A"), enum("B"), ALL),
        (enum("A"), enum("A", name="F"), NONE),
        (enum("A"), enum("A", namespace="n"), ALL),
        (enum("A"), enum("A", name="F", aliases=["E"]), BACKWARD),
        (enum("A", namespace="n"), enum("A", name="F", namespace="n", aliases=["E"]), BACKWARD),
        (enum("A", namespace="n"), enum("A", name="F", aliases=["n.E"]), BACKWARD),
        (avro({"name": "l", "type": {"type": "array", "items": "int"}}),
         avro({"name": "l", "type": {"type": "array", "items": "long"}}), BACKWARD),
        (avro({"name": "m", "type": {"type": "map", "values": "int"}}),
         avro({"name": "m", "type": {"type": "array", "items": "int"}}), NONE),
        (avro({"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}}),
         avro({"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}}), NONE),
        (avro({"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}}),
         avro({"name": "f", "type": {"type": "fixed", "name": "G", "size": 2}}), NONE),
        (avro({"name": "next", "type": ["null", "Flight"]}),
         avro({"name": "next", "type": ["null", "Flight"]}, OPTIONAL), ALL),
    ],
)  # fmt: skip
def test_avro_types(old: SchemaInfo, new: SchemaInfo, expected: set[str]) -> None:
    assert allowed(old, new) == expected


def test_always_and_never() -> None:
    different = SchemaInfo(SchemaType.STRING)
    assert is_compatible(BASE, different, Strategy.ALWAYS_COMPATIBLE)
    for new in (BASE, avro(REQUIRED, OPTIONAL)):
        assert not is_compatible(BASE, new, Strategy.ALWAYS_INCOMPATIBLE)
    assert not is_compatible(INT, INT, Strategy.ALWAYS_INCOMPATIBLE)


@pytest.mark.parametrize("strategy", CHECKED)
def test_types_must_stay(strategy: Strategy) -> None:
    with pytest.raises(IncompatibleSchemaError, match="exists schema type AVRO, new schema type STRING"):
        check([parse(BASE)], parse(STRING), strategy)
    assert is_compatible(STRING, SchemaInfo(SchemaType.STRING, b"null"), strategy)
    assert not is_compatible(INT, SchemaInfo(SchemaType.INT64), strategy)
    assert not is_compatible(SchemaInfo(SchemaType.AVRO, BASE.data), SchemaInfo(SchemaType.JSON, BASE.data), strategy)


@pytest.mark.parametrize("strategy", CHECKED)
def test_external_schemas_follow_external_schemas_only(strategy: Strategy) -> None:
    external = SchemaInfo(SchemaType.EXTERNAL)
    assert is_compatible(external, SchemaInfo(SchemaType.EXTERNAL, b"other"), strategy)
    assert not is_compatible(external, BASE, strategy)
    assert not is_compatible(BASE, external, strategy)


@pytest.mark.parametrize("strategy", CHECKED)
def test_protobuf_native_messages_keep_their_name(strategy: Strategy) -> None:
    assert is_compatible(protobuf_native(), protobuf_native(fields=2), strategy)
    assert not is_compatible(protobuf_native(), protobuf_native("air.Airport"), strategy)
    assert not is_compatible(protobuf_native(), protobuf_native("sea.Flight"), strategy)


@pytest.mark.parametrize("strategy", CHECKED)
def test_old_json_documents(strategy: Strategy) -> None:
    same = SchemaInfo(SchemaType.JSON, b'{"type":"object","id":"urn:jsonschema:Flight","properties":{}}')
    other = SchemaInfo(SchemaType.JSON, b'{"type":"object","id":"urn:jsonschema:Airport"}')
    modern = SchemaInfo(SchemaType.JSON, record(REQUIRED))
    assert is_compatible(DOCUMENT, same, strategy)
    assert not is_compatible(DOCUMENT, other, strategy)
    assert is_compatible(DOCUMENT, modern, strategy)
    assert is_compatible(modern, DOCUMENT, strategy)


def test_key_and_value_are_checked() -> None:
    old = key_value(BASE, INT)
    assert allowed(old, key_value(avro(REQUIRED, OPTIONAL), INT)) == ALL
    assert allowed(old, key_value(avro(REQUIRED, ADDED_REQUIRED), INT)) == FORWARD
    assert allowed(key_value(INT, BASE), key_value(INT, avro())) == BACKWARD
    assert allowed(old, key_value(BASE, STRING)) == NONE
    assert allowed(old, key_value(BASE, INT, "SEPARATED")) == ALL


def test_all_existing_schemas_are_compared() -> None:
    first, second, third = avro(REQUIRED), avro(REQUIRED, OPTIONAL | {"name": "a"}), avro(OPTIONAL | {"name": "a"})
    check([parse(second)], parse(third), Strategy.BACKWARD_TRANSITIVE)
    with pytest.raises(IncompatibleSchemaError, match="cannot read new data: field id has no default"):
        check([parse(first), parse(third)], parse(third), Strategy.FULL_TRANSITIVE)


def test_consumers_must_read_the_latest() -> None:
    assert [strategy_for_consumers(strategy) for strategy in Strategy] == [
        Strategy.UNDEFINED,
        Strategy.ALWAYS_INCOMPATIBLE,
        Strategy.ALWAYS_COMPATIBLE,
        Strategy.BACKWARD,
        Strategy.BACKWARD,
        Strategy.BACKWARD,
        Strategy.BACKWARD_TRANSITIVE,
        Strategy.BACKWARD,
        Strategy.FULL_TRANSITIVE,
    ]


def too_complex(old: SchemaInfo, new: SchemaInfo) -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        is_compatible(old, new, Strategy.BACKWARD)
    assert caught.value.limit is Limit.SCHEMA_COMPLEXITY


def test_a_comparison_of_all_with_all_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_definition, "STEPS_MAX", 50_000)
    unions = [
        SchemaInfo(
            SchemaType.AVRO,
            json.dumps(
                {
                    "type": "array",
                    "items": [{"type": "enum", "name": f"{letter}{i}", "symbols": ["A"]} for i in range(100)],
                }
            ).encode(),
        )
        for letter in "AB"
    ]
    too_complex(*unions)


NAMES = [f"name{i}" for i in range(100)]


@pytest.mark.parametrize(
    "described",
    [
        {"type": "record", "fields": [{"name": name, "type": "int"} for name in NAMES]},
        {"type": "record", "fields": [{"name": "field", "type": "int", "aliases": NAMES}]},
        {"type": "enum", "symbols": ["A"], "aliases": NAMES},
    ],
    ids=["fields", "aliases of fields", "aliases of types"],
)
def test_fields_and_aliases_count(monkeypatch: pytest.MonkeyPatch, described: dict[str, Any]) -> None:
    monkeypatch.setattr(avro_definition, "STEPS_MAX", 3_000)  # 100 pairs take 1,000 beside them

    def union(prefix: str) -> SchemaInfo:
        last = {"name": f"last{prefix}", "type": "int"}
        one = described | ({"fields": [*described["fields"], last]} if "fields" in described else {})
        types = [one | {"name": f"{prefix}{number}"} for number in range(10)]
        return SchemaInfo(SchemaType.AVRO, json.dumps({"type": "map", "values": types}).encode())

    too_complex(union("A"), union("B"))


def test_a_comparison_with_many_versions_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(types: int) -> SchemaInfo:
        return avro(
            *(
                {"name": f"f{i}", "type": {"type": "array", "items": {"type": "record", "name": f"R{i}", "fields": []}}}
                for i in range(types)
            )
        )

    new, existing = parse(nested(20)), [parse(nested(20)) for _ in range(10)]
    check(existing, new, Strategy.FULL_TRANSITIVE)
    monkeypatch.setattr(avro_definition, "STEPS_OF_ALL_MAX", 8_500)  # 430 for each version in each direction
    check(existing[:9], parse(nested(20)), Strategy.FULL_TRANSITIVE)
    with pytest.raises(InvalidSchemaError) as caught:
        check(existing, parse(nested(20)), Strategy.FULL_TRANSITIVE)
    assert caught.value.limit is Limit.SCHEMA_COMPLEXITY


def test_a_long_chain_of_types_ends() -> None:
    chain: list[dict[str, Any]] = [{"type": "record", "name": "C0", "fields": []}]
    chain += [
        {"type": "record", "name": f"C{i}", "fields": [{"name": "next", "type": f"C{i - 1}"}]} for i in range(1, 2000)
    ]

    def described(prefix: str) -> SchemaInfo:
        fields = [{"name": f"{prefix}{i}", "type": each, "default": None} for i, each in enumerate(chain[:-1])]
        return avro(*fields, {"name": "last", "type": chain[-1]})

    too_complex(described("old"), described("new"))
