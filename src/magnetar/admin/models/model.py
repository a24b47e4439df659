"""What the models of the admin API share: their names in JSON are Pulsar's."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

from magnetar.base.position import Position


def iso_time(timestamp_ms: float) -> str:
    """The moment, milliseconds since the epoch, as Pulsar writes it."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def _json_name(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


def to_json(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a value as JSON has it."""
    match value:
        case Model():
            return value.to_json()
        case Position():
            return str(value)
        case list():
            return [to_json(each) for each in value]
        case dict():
            return {key: to_json(each) for key, each in value.items()}
        case _:
            return value


NOT_SHOWN = {"json": False}
"""Metadata of a field that is no part of the JSON object."""


@dataclass(slots=True, kw_only=True)
class Model:
    """Something that is answered as a JSON object."""

    def to_json(self) -> dict[str, Any]:
        """The object in Pulsar's field names."""
        return {name: to_json(value) for name, value in self.members().items()}

    def members(self) -> dict[str, Any]:
        """The members of the object in Pulsar's field names, with their values as they are here."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self) if each.metadata != NOT_SHOWN)
        return {_json_name(name): value for name, value in values if value is not None} | self._derived()

    def _derived(self) -> dict[str, Any]:
        """JSON fields that follow from the others."""
        return {}
