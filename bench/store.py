"""The samples so far, stored in a file after each measurement, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from bench.systems import System

VERSION = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one system in one round."""

    measurement: str
    system: str
    round: int
    seconds: float
    """Duration of the measurement."""

    figures: dict[str, float]
    """By row."""

    details: dict[str, Any] = field(default_factory=dict)
    """Further results for the JSON file."""


class OtherRunError(Exception):
    """The stored samples have different parameters, so the run cannot be resumed."""


class Store:
    """The samples of one run."""

    def __init__(self, file: Path, run: dict[str, Any], *, resume: bool) -> None:
        """Begin without samples, or with those of the same ``run`` in ``file`` if ``resume`` is set.

        Raises OtherRunError if the file is of another run.
        """
        self._file = file
        self.run = run
        self.machine: dict[str, Any] = {}
        self.samples: list[Sample] = []
        if resume and file.exists():
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["version"] != VERSION or kept["run"] != run:
                text = f"{file} is of another run: {kept['run']}, not {run}"
                raise OtherRunError(text)
            self.machine = kept["machine"]
            self.samples = [Sample(**sample) for sample in kept["samples"]]

    def add(self, sample: Sample) -> None:
        """Add a sample, and write the file."""
        self.samples.append(sample)
        content = {"version": VERSION, "run": self.run, "machine": self.machine, "samples": self.as_json()}
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(content, indent=1), encoding="utf-8")
        unfinished.replace(self._file)

    def as_json(self) -> list[dict[str, Any]]:
        """Return all samples as JSON values."""
        return [asdict(each) for each in self.samples]

    def has(self, measurement: str, system: System, number: int) -> bool:
        """Return whether the round has its sample."""
        return any(
            (sample.measurement, sample.system, sample.round) == (measurement, system, number)
            for sample in self.samples
        )

    def of(self, row: str, system: System) -> list[float]:
        """Return the row's figures of all rounds."""
        return [sample.figures[row] for sample in self.samples if sample.system == system and row in sample.figures]

    def seconds(self, measurement: str) -> float:
        """Return the duration of all rounds of a measurement, of both systems."""
        return sum(sample.seconds for sample in self.samples if sample.measurement == measurement)
