"""One run of the demo, from an empty directory to the report."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.demo.clusters import start_clusters
from magnetar.demo.director import Director
from magnetar.demo.display import Display
from magnetar.demo.flights import FLIGHTS, data_file
from magnetar.demo.processes.workers import Workers
from magnetar.demo.story import Story
from magnetar.ops.layout import hold

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.demo.report import Report

FLIGHTS_MIN = 1_000
"""Fewer flights would leave nothing to see between the switches."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose."""

    directory: Path
    """Takes the report and, in ``data``, everything of the clusters; what an earlier run left there is removed."""
    flights: int = FLIGHTS
    base_port: int = 16650
    keep: bool = False
    """Leave the clusters running."""


def run(options: Options) -> tuple[Report, int | None]:
    """Play the story and write ``report.json``; the process id of the clusters' ``magnetar up`` if it was kept."""
    if not FLIGHTS_MIN <= options.flights <= FLIGHTS:
        message = f"--flights {options.flights}: choose {FLIGHTS_MIN} to {FLIGHTS}"
        raise ConfigurationError(message)
    data_file()  # without data nothing needs to start
    data = options.directory.resolve() / "data"
    with hold(data):  # not while the clusters of an earlier run go on in it
        pass
    shutil.rmtree(data)
    (data / "logs").mkdir(parents=True)
    workers = Workers()
    kept = False
    with Display() as display:
        display.starting()
        clusters = start_clusters(data, options.base_port, keep=options.keep)
        try:
            report = Story(Director(clusters, workers, display, options.flights), options.flights).play()
            kept = options.keep
        finally:
            workers.close()
            if not kept:
                clusters.stop()
    text = json.dumps(report.to_json(), indent=2)
    (options.directory / "report.json").write_text(text + "\n", encoding="utf-8")
    return report, clusters.process.pid if kept else None
