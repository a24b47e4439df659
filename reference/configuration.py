"""The page of a broker's settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from magnetar.broker.settings.config import SECTIONS
from magnetar.broker.settings.loading import ENVIRONMENT_PREFIX
from reference.markdown import code, table, value

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}

_TYPES = {Path: "path", str: "text", bool: "`true`, `false`", int: "integer", float: "number", int | None: "integer"}

_ABOUT = f"""\
A broker reads its settings from a file of `key=value` lines (`magnetar broker --config FILE`), from the environment
(`{ENVIRONMENT_PREFIX}<key>`), and from its command line (`--<key> VALUE`). Later sources override earlier ones. The
file has the format of Pulsar's `broker.conf`. An empty value means the default, but an empty port is not opened. A
broker does not start with a key that neither Magnetar nor Apache Pulsar knows, or with a value outside its bounds. Keys
with names of Apache Pulsar have the same meaning there ([keys of Pulsar's broker.conf](broker-conf.md)).
"""


def page() -> str:
    """Return a table of settings for each section."""
    return "\n".join([_ABOUT, *map(_section, SECTIONS)])


def _section(section: type[BaseModel]) -> str:
    rows = [
        (code(name), _type(field.annotation), code(value(field.default)), _bounds(field), field.description or "")
        for name, field in section.model_fields.items()
    ]
    heading = (section.__doc__ or "").removesuffix(".")
    return f"## {heading}\n\n{table(('key', 'type', 'default', 'bounds', 'meaning'), rows)}"


def _type(annotation: Any) -> str:  # noqa: ANN401 - any type
    if get_origin(annotation) is Literal:
        return ", ".join(map(code, get_args(annotation)))
    return _TYPES[annotation]


def _bounds(field: FieldInfo) -> str:
    found = [
        f"{sign} {getattr(each, name)}"
        for each in field.metadata
        for name, sign in _BOUNDS.items()
        if getattr(each, name, None) is not None
    ]
    return ", ".join(found)
