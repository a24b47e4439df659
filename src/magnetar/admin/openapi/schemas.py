"""JSON schemas of types: those of pydantic, and the models of statistics."""

from __future__ import annotations

from dataclasses import fields
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from magnetar.admin.models.model import NOT_SHOWN, Model, json_name
from magnetar.base.position import Position

Json = dict[str, Any]

PLACE = "#/components/schemas/"


class Schemas:
    """Makes the schemas of types, and collects those of classes, which the others refer to."""

    def __init__(self) -> None:
        """Collect nothing yet."""
        self.named: Json = {}
        """Schemas of classes by name."""

    def of(self, kind: Any) -> Json:  # noqa: ANN401 - any type, or its TypeAdapter
        """Return the schema of a type."""
        arguments = get_args(kind)
        match get_origin(kind):
            case None if isinstance(kind, type) and issubclass(kind, Model):
                return self._model(kind)
            case None if kind is Position:
                return {"type": "string", "pattern": "^-?[0-9]+:-?[0-9]+$"}
            case origin if origin is list:
                return {"type": "array", "items": self.of(arguments[0])}
            case origin if origin is dict:
                return {"type": "object", "additionalProperties": self.of(arguments[1])}
            case origin if origin in {Union, UnionType}:
                return {"anyOf": [self.of(each) for each in arguments]}
        return self._by_pydantic(kind)

    def _by_pydantic(self, kind: Any) -> Json:  # noqa: ANN401 - any type, or its TypeAdapter
        adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
        found, others = TypeAdapter.json_schemas(
            [("it", "validation", adapter)], ref_template=f"{PLACE}{{model}}", schema_generator=_Generator
        )
        self.named |= others.get("$defs", {})
        return found["it", "validation"]

    def _model(self, kind: type[Model]) -> Json:
        """Return a reference to the schema of a model, which mostly omits fields that are None."""
        name = kind.__name__
        if name not in self.named:
            self.named[name] = {}  # a model may contain itself
            hints = get_type_hints(kind)
            members = {each.name: hints[each.name] for each in fields(kind) if each.metadata != NOT_SHOWN}
            self.named[name] = {
                "type": "object",
                "description": cleandoc(kind.__doc__ or "").partition("\n\n")[0],
                "properties": {
                    json_name(each): self.of(type_ if kind.SHOWS_NONE else _without_none(type_))
                    for each, type_ in members.items()
                },
                "required": [
                    json_name(each)
                    for each, type_ in members.items()
                    if kind.SHOWS_NONE or NoneType not in get_args(type_)
                ],
            }
        return {"$ref": f"{PLACE}{name}"}


class _Generator(GenerateJsonSchema):
    """Leaves out titles, which repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - of pydantic
        return False


def _without_none(kind: Any) -> Any:  # noqa: ANN401 - any type
    """Return a type without None; a list or an object is returned unchanged."""
    if get_origin(kind) not in {Union, UnionType}:
        return kind
    return Union[tuple(each for each in get_args(kind) if each is not NoneType)]  # noqa: UP007 - made at run time
