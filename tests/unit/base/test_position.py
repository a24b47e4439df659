"""Positions as text."""

from __future__ import annotations

import pytest

from magnetar.base.position import EARLIEST, LATEST, Position


@pytest.mark.parametrize("position", [EARLIEST, LATEST, Position(17, -1), Position(1_700_000_001_783, 41)])
def test_a_position_is_read_as_it_was_written(position: Position) -> None:
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "1",
        "1:",
        ":1",
        "1:2:3",
        "a:1",
        "1:-2",
        "-2:1",
        f"{2**63}:0",
        f"0:{2**63}",
        f"1:{'9' * 5000}",
        "\u0661:\u0662",
        "1:\uff12",
    ],
)
def test_invalid_positions_are_refused_with_a_short_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a position of the form ledger:entry") as raised:
        Position.parse(text)
    assert len(str(raised.value)) < 200
