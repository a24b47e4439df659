from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.store import OtherRunError, Sample, Store
from bench.systems import System

if TYPE_CHECKING:
    from pathlib import Path

RUN = {"scale": "full", "rounds": 3}


def sample(value: float, system: System = System.APACHE, number: int = 1) -> Sample:
    return Sample("start", system, number, 2.5, {"start": value}, {"why": "because"})


def test_a_resumed_run_has_what_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    store = Store(file, RUN, resume=False)
    store.machine = {"processors": 2}
    store.add(sample(7.0))
    store.add(sample(0.8, System.MAGNETAR))
    store.add(sample(7.2, number=2))
    again = Store(file, RUN, resume=True)
    assert again.machine == {"processors": 2}
    assert again.samples == store.samples
    assert again.of("start", System.APACHE) == [7.0, 7.2]
    assert again.of("start", System.MAGNETAR) == [0.8]
    assert again.seconds("start") == 7.5
    assert again.has("start", System.APACHE, 2)
    assert not again.has("start", System.MAGNETAR, 2)


def test_without_resuming_everything_is_measured_anew(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    Store(file, RUN, resume=False).add(sample(7.0))
    assert Store(file, RUN, resume=False).samples == []


def test_a_run_of_another_scale_is_not_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    Store(file, RUN, resume=False).add(sample(7.0))
    with pytest.raises(OtherRunError, match="another run"):
        Store(file, {"scale": "quick", "rounds": 1}, resume=True)


def test_there_is_nothing_to_resume_at_first(tmp_path: Path) -> None:
    assert Store(tmp_path / "samples.json", RUN, resume=True).samples == []
