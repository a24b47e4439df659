"""Values of options: positions and times, for all topics or by topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from magnetar.base.position import EARLIEST, LATEST, LONG_MAX, Position

if TYPE_CHECKING:
    from collections.abc import Callable

    BoundT = TypeVar("BoundT", Position, int)
    Parse = Callable[[object], BoundT]

_NAMED = {"earliest": EARLIEST, "latest": LATEST}
_POSITIONS = 'earliest, latest or JSON such as {"persistent://t/n/topic": "5:0"}'
_TIMES = 'milliseconds since 1970, or JSON such as {"persistent://t/n/topic": 1700000000000}'


def parse_offsets(text: str) -> Position | dict[str, Position]:
    """Parse ``earliest``, ``latest``, or a JSON object with one of them or ``ledger:entry`` by topic or partition.

    Raises ValueError.
    """
    return _NAMED[text] if text in _NAMED else _by_topic(text, _position, _POSITIONS)


def parse_times(text: str) -> int | dict[str, int]:
    """Parse milliseconds since the epoch, or a JSON object with them by topic or partition; raises ValueError."""
    return int(text) if text.isdecimal() and text.isascii() else _by_topic(text, _time, _TIMES)


def _by_topic(text: str, parse: Parse[BoundT], form: str) -> dict[str, BoundT]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        message = f"{text!r} is not {form}"
        raise ValueError(message)  # noqa: TRY004 - of another form, as a text that is no JSON
    return {topic: parse(value) for topic, value in values.items()}


def _position(value: object) -> Position:
    return _NAMED[value] if isinstance(value, str) and value in _NAMED else Position.parse(str(value))


def _time(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LONG_MAX:
        return value
    message = f"not milliseconds since 1970: {value!r}"
    raise ValueError(message)
