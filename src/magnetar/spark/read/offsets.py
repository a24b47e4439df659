"""Offsets: for each topic or partition, the position of the next entry to read, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.position import EARLIEST, LATEST, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

EARLIEST_TEXT = "earliest"
LATEST_TEXT = "latest"
_NAMED = {EARLIEST_TEXT: EARLIEST, LATEST_TEXT: LATEST}


def parse_offsets(option: str, text: str) -> Position | dict[str, Position]:
    """Parse ``earliest``, ``latest``, or a JSON object with one of them or ``ledger:entry`` by topic or partition.

    Raises ConfigurationError with the option and the error.
    """
    if text in _NAMED:
        return _NAMED[text]
    try:
        offsets = json.loads(text)
    except ValueError:
        offsets = None
    if not isinstance(offsets, dict):
        message = (
            f'option {option}: {text!r} is not earliest, latest or JSON such as {{"persistent://t/n/topic": "5:0"}}'
        )
        raise ConfigurationError(message)
    try:
        return {
            topic: _NAMED[value] if value in _NAMED else Position.parse(str(value)) for topic, value in offsets.items()
        }
    except ValueError as error:
        message = f"option {option}: {error}"
        raise ConfigurationError(message) from None


def encode_offsets(offsets: Mapping[str, Position]) -> dict[str, str]:
    """Return the offset of a stream for Spark, which stores it as JSON."""
    return {topic: str(position) for topic, position in sorted(offsets.items())}


def decode_offsets(offsets: Mapping[str, str]) -> dict[str, Position]:
    """Return the positions of an offset of a stream; raises ValueError for one that this source did not write."""
    return {topic: Position.parse(text) for topic, text in offsets.items()}
