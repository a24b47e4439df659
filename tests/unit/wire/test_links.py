from __future__ import annotations

from pathlib import Path

import pytest

from magnetar.base.position import Position
from magnetar.wire import links

PAGE = (Path(__file__).parents[3] / "docs" / "protocol.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in vars(links) if name.endswith(("_PREFIX", "_METADATA"))])
def test_the_page_lists_what_is_agreed_on(name: str) -> None:
    assert f"`{getattr(links, name)}" in PAGE


@pytest.mark.parametrize(
    ("producer", "source"),
    [
        (links.link_producer("ewr", "jfk"), "ewr"),
        ("pulsar.repl.ewr", "ewr"),  # an early Apache Pulsar
        ("magnetar.progress.ewr", "ewr"),
    ],
)
def test_the_source_of_a_producer(producer: str, source: str) -> None:
    assert links.source_of(producer) == source


@pytest.mark.parametrize(("last", "text"), [(Position(3, 4), "3:4"), (None, "-1:-1")])
def test_a_gap_names_both_positions(last: Position | None, text: str) -> None:
    assert links.gap_text(Position(3, 5), last) == f"gap: previous=3:5 last={text}"
