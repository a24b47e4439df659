"""Times, sizes and positions on the command line."""

from __future__ import annotations

import pytest
import typer

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.cli.units import megabytes, minutes, position, seconds


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("90", 90), ("90s", 90), ("10m", 600), ("2d", 172800), ("1W", 604800)]
)
def test_seconds(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("-1", -1), ("0", 0), ("10m", 10), ("3h", 180), ("120s", 2)])
def test_minutes(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("-1", -1), ("0", 0), ("100M", 100), ("16g", 16384), ("3T", 3 * 2**20)])
def test_megabytes(text: str, expected: int) -> None:
    assert megabytes(text) == expected


@pytest.mark.parametrize(("text", "expected"), [("earliest", EARLIEST), ("latest", LATEST), ("3:14", Position(3, 14))])
def test_position(text: str, expected: Position) -> None:
    assert position(text) == expected


@pytest.mark.parametrize("text", ["", "m", "1y", "-5m", "1.5h"])
def test_not_a_time(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a time"):
        seconds(text)


@pytest.mark.parametrize(("parse", "text"), [(minutes, "90s"), (megabytes, "100K"), (position, "3")])
def test_refused(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(typer.BadParameter):
        parse(text)
