from __future__ import annotations

from typing import TYPE_CHECKING

from bench.notes import WIDTH, notes
from bench.scale import FULL, QUICK
from bench.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_a_quick_table_says_first_that_it_is_none_to_rely_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "samples.json", {"scale": "quick", "rounds": 1}, resume=False)
    assert notes(store, QUICK, 160.0).startswith("This is the quick table")
    store = Store(tmp_path / "samples.json", {"scale": "full", "rounds": 3}, resume=False)
    assert "quick table" not in notes(store, FULL, 1_200.0)


def test_the_notes_say_how_and_on_what_it_was_measured(tmp_path: Path) -> None:
    store = Store(tmp_path / "samples.json", {"scale": "full", "rounds": 3}, resume=False)
    store.machine = {"processor": "AMD EPYC", "processors": 2}
    text = notes(store, FULL, 1_234.5)
    assert "journalSyncData=true" in text
    assert "rounds: 3" in text
    assert "1234 s" in text
    assert "processor AMD EPYC, processors 2" in text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "{" not in text
