"""One run of the demo, from an empty directory to the report."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.demo.clusters import start_clusters
from magnetar.demo.coordinator import Coordinator
from magnetar.demo.display import Display
from magnetar.demo.failover import Failover
from magnetar.demo.flights import FLIGHTS, data_file
from magnetar.demo.processes.workers import Workers
from magnetar.ops.layout import hold

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from magnetar.demo.report import Report

FLIGHTS_MIN = 1_000
"""Minimum number of flights, so that there is traffic between the switches."""


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options."""

    directory: Path
    """Directory for the report, and for the clusters' data in ``data``; files of an earlier run are removed."""
    flights: int = FLIGHTS
    base_port: int = 16650
    keep: bool = False
    """Whether the clusters keep running."""
    of_up: Sequence[str] = ()
    """Further options of ``magnetar up``."""


def run(options: Options) -> tuple[Report, int | None]:
    """Run the demo and write ``report.json``; return the process id of ``magnetar up`` if it keeps running."""
    if not FLIGHTS_MIN <= options.flights <= FLIGHTS:
        message = f"--flights {options.flights}: choose {FLIGHTS_MIN} to {FLIGHTS}"
        raise ConfigurationError(message)
    data_file()  # fail early without the data
    data = options.directory.resolve() / "data"
    with hold(data):  # fails while the clusters of an earlier run use it
        pass
    shutil.rmtree(data)
    (data / "logs").mkdir(parents=True)
    workers = Workers()
    kept = False
    with Display() as display:
        display.starting()
        clusters = start_clusters(data, options.base_port, keep=options.keep, options=options.of_up)
        try:
            report = Failover(Coordinator(clusters, workers, display, options.flights), options.flights).run()
            kept = options.keep
        finally:
            workers.close()
            if not kept:
                clusters.stop()
    text = json.dumps(report.to_json(), indent=2)
    (options.directory / "report.json").write_text(text + "\n", encoding="utf-8")
    return report, clusters.process.pid if kept else None
