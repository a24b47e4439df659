"""JSON in requests, read as Pulsar's brokers read it: null is an absent value, and a number may be in a string."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter

Kind = TypeVar("Kind")

_AS_TEXT: Final = {"int_type": re.compile(r"-?[0-9]{1,19}"), "bool_type": re.compile("true|false")}
"""The strings that are accepted instead of a number or a boolean, by the type of the error."""


def validated(kind: TypeAdapter[Kind], content: bytes | bytearray) -> Kind:
    """Return the value of JSON; raises ValidationError for an invalid one.

    The Go client sends null for members that are not set. Shell scripts and test suites put numbers into strings.
    """
    try:
        return kind.validate_json(content, strict=True)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        if not all(map(_is_tolerated, errors)):
            raise
    # Only the values in question violate the strict rules, so the other rules apply to these only.
    return kind.validate_json(json.dumps(_without_nulls(json.loads(content))), strict=False)


def _is_tolerated(error: Mapping[str, object]) -> bool:
    value = error["input"]
    if value is None:
        return bool(error["loc"])  # a member, not the whole body
    text = _AS_TEXT.get(str(error["type"]))
    return text is not None and isinstance(value, str) and text.fullmatch(value) is not None


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    match value:
        case dict():
            return {key: _without_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
        case _:
            return value
