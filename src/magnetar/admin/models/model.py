"""Base of the models of the admin API, which have Pulsar's names in JSON."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar

from magnetar.base.position import Position


def iso_time(timestamp_ms: float) -> str:
    """Return a time, given in milliseconds since the epoch, in Pulsar's form of ISO 8601."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def json_name(attribute: str) -> str:
    """Return Pulsar's name of an attribute of a model."""
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


def to_json(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Return a value in a form that JSON can represent."""
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
"""Metadata of a field that is omitted from the JSON object."""


@dataclass(slots=True, kw_only=True)
class Model:
    """A value that is answered as a JSON object."""

    SHOWS_NONE: ClassVar[bool] = False
    """Whether members that are None are null in JSON; otherwise they are absent."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object with Pulsar's field names."""
        return {name: to_json(value) for name, value in self.members().items()}

    def members(self) -> dict[str, Any]:
        """Return the members with Pulsar's field names; the values are not converted."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self) if each.metadata != NOT_SHOWN)
        return {json_name(name): value for name, value in values if value is not None or self.SHOWS_NONE} | (
            self._derived()
        )

    def _derived(self) -> dict[str, Any]:
        """Return JSON fields that are derived from the others."""
        return {}
