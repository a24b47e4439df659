from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from bench import picture
from bench.catalogue import MEASUREMENTS
from bench.figures import Summary, Verdict
from bench.report import as_json, lines
from bench.store import Sample, Store
from bench.systems import System
from bench.table import figure, spread, table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return three rounds of publishing, and one of a planned and an unplanned switch."""
    kept = Store(tmp_path / "samples.json", {"scale": "full", "rounds": 3}, resume=False)
    for number, (apache, magnetar) in enumerate(zip((13.1, 12.4, 14.0), (2.95, 3.0, 2.9), strict=True)):
        kept.add(_publish(System.APACHE, number, (80_000 + 10_000 * number, apache)))
        kept.add(_publish(System.MAGNETAR, number, (190_000 + 10_000 * number, magnetar)))
    kept.add(Sample("switch", System.APACHE, 1, 30, {"switch.late": 3853, "switch.kill": 503}))
    kept.add(Sample("switch", System.MAGNETAR, 1, 30, {"switch.late": 0, "switch.kill": 25}))
    return kept


def _publish(system: System, number: int, figures: tuple[float, float]) -> Sample:
    rate, cpu = figures
    return Sample("publish.100", system, number, 2.0, {"publish.100.rate": rate, "publish.100.cpu": cpu})


def test_the_table_shows_medians_spread_ratio_target_and_verdict(store: Store) -> None:
    printed = table(lines(store, ["publish.100"])).splitlines()
    assert [" ".join(line.split()) for line in printed[2:]] == [
        "publish: raw, one connection, unbatched, window 1,000 (64 KiB: 64)",
        "100 B: entries/s 90,000 (80,000-100,000) 200,000 (190,000-210,000) 2.22x better 12 s",
        "100 B: broker CPU per entry, µs 13.1 (12.4-14) 2.95 (2.9-3) 0.23x ≤ 0.25x met",
    ]


def test_columns_are_aligned(store: Store) -> None:
    heads, _rule, _group, *rows = table(lines(store, ["publish.100"])).splitlines()
    place = heads.index("ratio")
    assert [row[place : place + 5] for row in rows] == ["2.22x", "0.23x"]


def test_a_row_without_a_sample_says_so(store: Store) -> None:
    (line,) = lines(store, ["start"])
    assert line.verdict is Verdict.NOT_MEASURED
    assert "not measured" in table([line])


def test_a_figure_of_0_needs_no_ratio_to_meet_its_target(store: Store) -> None:
    by_id = {line.row.id: line for line in lines(store, ["switch"])}
    assert by_id["switch.late"].verdict is Verdict.MET
    assert by_id["switch.kill"].verdict is Verdict.BETTER


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (0.2345, "0.234"), (1.5, "1.5"), (12.34, "12.3"), (123.4, "123"), (12_345.6, "12,346"), (41.0, "41")],
)
def test_figures_have_the_digits_that_mean_something(value: float, expected: str) -> None:
    assert figure(value) == expected


def test_a_spread_needs_more_than_one_value() -> None:
    assert spread(Summary(5.5, 5.5, 5.5, 1)) == "5.5"
    assert spread(Summary(5.5, 5.0, 6.0, 3)) == "5.5 (5-6)"
    assert spread(None) == "-"


def test_the_json_has_every_line(store: Store) -> None:
    found = lines(store, [measurement.id for measurement in MEASUREMENTS])
    decoded = json.loads(json.dumps(as_json(found)))
    assert len(decoded) == sum(len(measurement.rows) for measurement in MEASUREMENTS)
    (publish,) = (row for row in decoded if row["id"] == "publish.100.cpu")
    assert publish["verdict"] == "met"
    assert publish["target"] == {"of": "ratio", "bound": 0.25}
    assert publish["apache"] == {"median": 13.1, "low": 12.4, "high": 14.0, "count": 3}


def test_the_picture_shows_every_measured_row_and_its_verdict(store: Store, tmp_path: Path) -> None:
    found = lines(store, ["publish.100", "switch", "start"])
    picture.draw(found, tmp_path)
    texts = {element.text for element in ET.parse(tmp_path / "table.svg").iter() if element.text}
    assert {"100 B: broker CPU per entry", "4.4x met", "2.2x better", "0 here met", "20x better"} <= texts
    assert "start to healthy" not in texts
    assert (tmp_path / "table.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_lines_give_the_same_picture(store: Store, tmp_path: Path) -> None:
    found = lines(store, ["publish.100"])
    picture.draw(found, tmp_path)
    first = (tmp_path / "table.svg").read_bytes()
    picture.draw(found, tmp_path)
    assert (tmp_path / "table.svg").read_bytes() == first
