"""Magnetar's output equals Apache Pulsar's, except for the listed differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.golden.differences import FIELDS, MORE, ORDERS
from tests.golden.mutants import KINDS
from tests.golden.record import TRANSCRIPTS
from tests.golden.replay import DivergenceError, replay
from tests.golden.scenarios import SCENARIOS
from tests.golden.transcript import from_text, to_text

if TYPE_CHECKING:
    from tests.golden.transcript import Transcript

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(TRANSCRIPTS.glob("*.txt"))}
RECORDED = {name: from_text(text) for name, text in TEXTS.items()}

BYTES_MAX = 1 << 20
"""Maximum size of all transcripts, because people read them."""


def passes(transcript: Transcript) -> bool:
    try:
        replay(transcript)
    except DivergenceError:
        return False
    return True


@pytest.mark.parametrize("name", RECORDED)
def test_magnetar_says_what_apache_pulsar_said(name: str) -> None:
    replay(RECORDED[name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("one_in", [5, pytest.param(1, marks=pytest.mark.long)])
def test_a_mutated_transcript_fails(kind: str, one_in: int) -> None:
    mutants = [mutant for transcript in RECORDED.values() for mutant in KINDS[kind](transcript)][::one_in]
    assert mutants
    assert [mutant.change for mutant in mutants if passes(mutant.transcript)] == []


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_that_may_differ_does(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FIELDS, field)
    assert not all(map(passes, RECORDED.values()))


@pytest.mark.parametrize(("table", "rows"), [("ORDERS", ORDERS), ("MORE", MORE)])
def test_every_other_difference_is_needed(table: str, rows: tuple[object], monkeypatch: pytest.MonkeyPatch) -> None:
    for row in rows:
        monkeypatch.setattr(f"tests.golden.comparison.{table}", tuple(other for other in rows if other is not row))
        assert not all(map(passes, RECORDED.values()))


def test_every_scenario_is_recorded_as_it_is_now() -> None:
    now = {
        name: (scenario.summary, {key: str(value) for key, value in scenario.settings.items()})
        for name, scenario in SCENARIOS.items()
    }
    assert {name: (recorded.summary, recorded.settings) for name, recorded in RECORDED.items()} == now


@pytest.mark.parametrize("name", RECORDED)
def test_a_transcript_is_written_as_it_was_read(name: str) -> None:
    assert to_text(RECORDED[name]) == TEXTS[name]


def test_the_transcripts_are_small() -> None:
    assert sum(map(len, TEXTS.values())) < BYTES_MAX
