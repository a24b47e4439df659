from __future__ import annotations

import re
from collections import Counter

import pytest

from bench.catalogue import MEASUREMENTS, Session
from bench.plan import Step, chosen, steps
from bench.scale import FULL, QUICK
from bench.systems import System


def nothing(_measurement: str, _system: System, _round: int) -> bool:
    return False


def test_every_row_is_measured_for_both_systems_in_turn() -> None:
    planned = steps(chosen(None, FULL), 3, nothing)
    turns: dict[str, list[System]] = {}
    for step in planned:
        for measurement in step.measurements:
            turns.setdefault(measurement, []).append(step.system)
    assert set(turns) == {measurement.id for measurement in MEASUREMENTS}
    assert all(systems == [System.APACHE, System.MAGNETAR] * 3 for systems in turns.values())


def test_row_ids_are_unique() -> None:
    ids = Counter(row.id for measurement in MEASUREMENTS for row in measurement.rows)
    assert max(ids.values()) == 1


def test_the_full_scale_leaves_nothing_out() -> None:
    assert chosen(None, FULL) == list(MEASUREMENTS)
    assert {each.id for each in chosen(None, FULL)} - {each.id for each in chosen(None, QUICK)} == set(QUICK.left_out)


def test_a_kill_comes_last_in_its_session() -> None:
    geo = [measurement.id for measurement in MEASUREMENTS if measurement.session is Session.GEO]
    assert geo[-1] == "switch"


def test_rows_are_chosen_by_their_ids() -> None:
    assert [each.id for each in chosen(r"^publish\.100\.", FULL)] == ["publish.100"]
    assert chosen("no such row", FULL) == []
    with pytest.raises(re.error):
        chosen("(", FULL)


def test_existing_samples_are_not_repeated() -> None:
    done = {("publish.100", System.APACHE, 1), ("publish.100", System.MAGNETAR, 1), ("publish.1024", System.APACHE, 1)}
    planned = steps(chosen(r"^publish\.(100|1024)\.", FULL), 2, lambda *key: key in done)
    assert planned == [
        Step(1, Session.LOAD, System.MAGNETAR, ("publish.1024",)),
        Step(2, Session.LOAD, System.APACHE, ("publish.100", "publish.1024")),
        Step(2, Session.LOAD, System.MAGNETAR, ("publish.100", "publish.1024")),
    ]
