from __future__ import annotations

from typing import TYPE_CHECKING

from bench.notes import WIDTH, notes
from bench.scale import FULL
from bench.store import Store

if TYPE_CHECKING:
    from pathlib import Path


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
