"""Avro definitions: parsing, fingerprints, and compatibility of readers and writers.

Apache Avro's library parses and compares. Its cost for hostile definitions is bounded here: definitions are checked
before it sees them, and each pair of types that it compares is counted. The library takes 30 ms to import, so this
module is imported by the first Avro definition.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from avro.compatibility import (
    CompatibleResult,
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
    SchemaIncompatibilityType,
    incompatible,
)
from avro.errors import AvroException
from avro.schema import PrimitiveSchema, make_avsc_object

from magnetar.base.errors import InvalidSchemaError
from magnetar.base.limits import Limit
from magnetar.schema.definition import Definition

if TYPE_CHECKING:
    from avro.schema import RecordSchema, Schema

    from magnetar.schema.strategy import SchemaCompatibilityStrategy

DEPTH_MAX: Final = 200
"""Arrays and objects within each other; a nested record takes three."""

LIST_MAX: Final = 5_000
"""Fields of a record, branches of a union or symbols of an enum. The library compares each field with all others."""

STEPS_MAX: Final = 500_000
"""Steps of the comparison of two definitions, up to 5 µs each: a compared field or alias, or a part of a pair."""

STEPS_OF_ALL_MAX: Final = 2_000_000
"""Steps of the comparison of one definition with all existing ones."""

_PAIR_STEPS: Final = 10
"""Steps that a pair of types takes beside its fields and aliases."""

_NAME = re.compile(r"[^\W\d][\w$]*\Z")
"""Names in Java: Pulsar accepts the dollar signs of nested classes."""

_NOT_COMPARED = frozenset({"doc", "aliases"})
"""Properties that do not distinguish schemas."""


class AvroDefinition(Definition):
    """A parsed definition."""

    def __init__(self, schema: Schema) -> None:
        """Wrap the library's object."""
        self.schema = schema
        self._steps = 0
        """Steps of all comparisons of this definition as the new one."""

    @classmethod
    def parse(cls, data: bytes) -> AvroDefinition:
        """Parse a definition; raises InvalidSchemaError."""
        try:
            document = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            message = f"the Avro definition is no JSON: {_shortened(error)}"
            raise InvalidSchemaError(message) from None
        return cls(_parse(_checked(document)))

    @property
    def is_union(self) -> bool:
        """See Definition."""
        return self.schema.type in ("union", "error_union")

    @property
    def fingerprint(self) -> str:
        """Equal for equivalent definitions, independent of spacing, order of keys and documentation."""
        form = json.dumps(_comparable(self.schema, set()), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()

    def conflict(self, old: Definition, strategy: SchemaCompatibilityStrategy) -> str | None:
        """See Definition; raises InvalidSchemaError if the comparison takes too long."""
        if not isinstance(old, AvroDefinition):
            return None  # Avro may replace a JSON Schema document
        if strategy.reads_old and (reason := self._difference(self.schema, old.schema)):
            return f"the new schema cannot read old data: {reason}"
        if strategy.reads_new and (reason := self._difference(old.schema, self.schema)):
            return f"the old schema cannot read new data: {reason}"
        return None

    def _difference(self, reader: Schema, writer: Schema) -> str | None:
        """Return None if ``reader`` can read the data of ``writer``, otherwise the reason."""
        checker = _Checker(min(STEPS_MAX, STEPS_OF_ALL_MAX - self._steps))
        try:
            result = checker.get_compatibility(reader, writer)
        except RecursionError:
            _refuse_complexity("its types refer to each other over too many steps")
        except AvroException as error:  # types of Avro's remote calls
            return _shortened(error)
        self._steps += checker.steps
        if result.compatibility is SchemaCompatibilityType.compatible:
            return None
        return _shortened("; ".join(sorted(result.messages)) or "the types differ")


class _Checker(ReaderWriterCompatibilityChecker):
    """The library's check, with counted steps, and in linear time for records of many fields."""

    def __init__(self, steps_max: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library's
        self._steps_max = steps_max
        self.steps = 0
        self._results: dict[tuple[object, object], SchemaCompatibilityResult] = {}

    def get_compatibility(
        self, reader: Schema, writer: Schema, reference_token: str = "", location: list[str] | None = None
    ) -> SchemaCompatibilityResult:
        """Compare two types. A pair that is being compared counts as compatible, as in the library."""
        del reference_token, location  # places are not reported
        pair = _identity(reader), _identity(writer)
        found = self._results.get(pair)
        if found is None:
            self._count(_PAIR_STEPS)
            self._results[pair] = CompatibleResult
            found = self._results[pair] = self.calculate_compatibility(reader, writer, [])
        return found

    def calculate_compatibility(self, reader: Schema, writer: Schema, location: list[str]) -> SchemaCompatibilityResult:
        """Compare named types as Java's resolution of data does, which Pulsar follows, and the others as the library.

        The name of a record does not matter, and an enum may lose symbols: data with them fail when they are read.
        """
        kinds = reader.type, writer.type
        if kinds == ("record", "record"):
            return self.check_reader_writer_record_fields(
                cast("RecordSchema", reader), cast("RecordSchema", writer), []
            )
        if kinds in (("enum", "enum"), ("fixed", "fixed")) and not self._has_name_of(reader, writer):
            kind = SchemaIncompatibilityType.name_mismatch
            return incompatible(kind, f"{_full_name(reader)} is not {_full_name(writer)}", location)
        if kinds == ("enum", "enum"):
            return CompatibleResult
        return super().calculate_compatibility(reader, writer, location)

    def check_reader_writer_record_fields(
        self, reader: RecordSchema, writer: RecordSchema, location: list[str]
    ) -> SchemaCompatibilityResult:
        """Compare the fields of two records up to the first that differs; the library makes a table for each field."""
        written = writer.fields_dict
        for field in reader.fields:
            aliases = field.props.get("aliases")
            names = (field.name, *(aliases if isinstance(aliases, list) else ()))
            self._count(len(names))
            source = next((written[name] for name in names if isinstance(name, str) and name in written), None)
            if source is not None:
                result = self.get_compatibility(field.type, source.type)
            elif field.has_default:
                continue
            else:
                kind = SchemaIncompatibilityType.reader_field_missing_default_value
                result = incompatible(kind, f"field {field.name} has no default", location)
            if result.compatibility is SchemaCompatibilityType.incompatible:
                return result
        return CompatibleResult

    def _has_name_of(self, reader: Any, writer: Any) -> bool:  # noqa: ANN401 - the library's classes have no common interface
        """Return whether two types have one name, without namespaces, or the writer's is an alias of the reader's."""
        aliases = reader.props.get("aliases")
        names = [each for each in aliases if isinstance(each, str)] if isinstance(aliases, list) else []
        self._count(len(names))
        prefix = f"{reader.namespace}." if reader.namespace else ""
        full_names = (each if "." in each else prefix + each for each in names)
        return reader.name == writer.name or writer.fullname in full_names

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self._steps_max:
            _refuse_complexity("the comparison with the existing schemas takes too many steps")


def _identity(schema: Schema) -> object:
    """Return the name of a primitive type, which compares alike everywhere, or the identity of another one."""
    return schema.type if isinstance(schema, PrimitiveSchema) else id(schema)


def _parse(document: object) -> Schema:
    try:
        schema = make_avsc_object(document, validate_names=False)
        _check_names(schema, set())
    except InvalidSchemaError:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds for invalid definitions
        cause: BaseException = error
        while cause.__context__ is not None:  # each level of a definition wraps the error of the next one
            cause = cause.__context__
        message = f"the Avro definition is invalid: {_shortened(cause)}"
        raise InvalidSchemaError(message) from None
    return schema


def _checked(document: object) -> object:
    """Check the size of all parts, and return a copy without logical types, which the library would interpret."""
    root: list[object] = [document]
    level: list[tuple[object, Any, Any]] = [(document, root, 0)]
    depth = 0
    while level:
        if depth > DEPTH_MAX:
            _refuse_complexity(f"it is nested more than {DEPTH_MAX} levels deep")
        following: list[tuple[object, Any, Any]] = []
        for value, parent, place in level:
            copy: Any = value
            if isinstance(value, dict):
                copy = {_renamed(key): each for key, each in value.items()}
                following += [(each, copy, key) for key, each in copy.items()]
            elif isinstance(value, list):
                if len(value) > LIST_MAX:
                    _refuse_complexity(f"a list in it has more than {LIST_MAX} members")
                copy = list(value)
                following += [(each, copy, index) for index, each in enumerate(copy)]
            parent[place] = copy
        level = following
        depth += 1
    return root[0]


def _renamed(key: str) -> str:
    return "logical type" if key == "logicalType" else key


def _refuse_complexity(reason: str) -> NoReturn:
    limit = Limit.SCHEMA_COMPLEXITY
    message = f"the Avro definition is too complex: {reason} ({limit})"
    raise InvalidSchemaError(message, limit)


def _check_names(schema: Any, seen: set[str]) -> None:  # noqa: ANN401 - the library's classes have no common interface
    fullname = _full_name(schema)
    if fullname is not None:
        if fullname in seen:
            return
        seen.add(fullname)
        for part in fullname.split("."):
            _check_name(part)
    for field in schema.fields if schema.type in ("record", "error") else ():
        _check_name(field.name)
    for each in _parts(schema):
        _check_names(each, seen)


def _check_name(name: str) -> None:
    if not _NAME.match(name):
        message = f"the Avro definition is invalid: {_shortened(name)} is no name"
        raise InvalidSchemaError(message)


def _full_name(schema: Any) -> str | None:  # noqa: ANN401
    return str(schema.fullname) if schema.type in ("record", "error", "enum", "fixed") else None


def _parts(schema: Any) -> list[Any]:  # noqa: ANN401
    """Return the types that a type consists of."""
    match schema.type:
        case "record" | "error":
            return [field.type for field in schema.fields]
        case "array":
            return [schema.items]
        case "map":
            return [schema.values]
        case "union" | "error_union":
            return list(schema.schemas)
        case _:
            return []


def _comparable(schema: Any, seen: set[str]) -> object:  # noqa: ANN401
    """Return the JSON form of a definition, without properties that do not distinguish schemas."""
    fullname = _full_name(schema)
    if fullname is not None:
        if fullname in seen:
            return fullname
        seen.add(fullname)
    parts = [_comparable(each, seen) for each in _parts(schema)]
    form = {key: value for key, value in schema.props.items() if key not in _NOT_COMPARED}
    match schema.type:
        case "record" | "error":
            form["fields"] = [
                {key: value for key, value in field.props.items() if key not in _NOT_COMPARED}
                | {"type": part, "order": field.order or "ascending"}
                for field, part in zip(schema.fields, parts, strict=True)
            ]
        case "array":
            form["items"] = parts[0]
        case "map":
            form["values"] = parts[0]
        case "union" | "error_union":
            return parts
    if fullname is not None:
        form["name"] = fullname
        form.pop("namespace", None)
    return form


def _shortened(value: object, length: int = 300) -> str:
    text = str(value)
    return text if len(text) <= length else f"{text[:length]}…"
