"""``make bench``: compare Magnetar with Apache Pulsar; the result is a table, a picture and a JSON file."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import picture
from bench.display import Display
from bench.notes import notes
from bench.plan import chosen, steps
from bench.report import as_json, lines
from bench.run import Run
from bench.scale import FULL, QUICK
from bench.store import OtherRunError, Store
from bench.systems import require_apache
from bench.table import table
from tests.kit.measure import describe_machine
from tests.kit.pulsar_jars import PulsarUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.catalogue import Measurement
    from bench.scale import Scale

DEFAULT_DIRECTORY = Path("build") / "bench"
INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""


def main() -> int:
    """Measure and print; return 0 if every row was measured, 1 if not, 2 if the run could not start."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options.directory.mkdir(parents=True, exist_ok=True)
    scale = QUICK if options.quick else FULL
    rounds = options.rounds or scale.rounds
    try:
        measurements = chosen(options.rows, scale)
        require_apache()
        run = {"scale": "quick" if options.quick else "full", "rounds": rounds}
        store = Store(options.directory / "samples.json", run, resume=options.resume)
    except (PulsarUnavailableError, OtherRunError, re.error) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    store.machine = store.machine or describe_machine(options.directory)
    planned = steps(measurements, rounds, store.has)
    started = time.monotonic()
    try:
        with Display(sum(len(step.measurements) for step in planned)) as display:
            failures = Run(store, scale, options.directory / "data", display).carry_out(planned)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; the samples are kept\nhint: resume with make bench ARGS=--resume\n")
        return INTERRUPTED
    found = _report(store, scale, measurements, time.monotonic() - started, options.directory)
    sys.stdout.write(json.dumps(found, indent=2) + "\n" if options.output == "json" else found["text"])
    for failure in failures:
        sys.stderr.write(f"not measured: {failure}\n")
    return int(bool(failures))


def _report(
    store: Store, scale: Scale, measurements: Sequence[Measurement], seconds: float, directory: Path
) -> dict[str, Any]:
    """Write the table, the picture and the JSON file; return the JSON data."""
    found = lines(store, [measurement.id for measurement in measurements])
    text = f"{table(found)}\n{notes(store, scale, seconds)}"
    (directory / "table.txt").write_text(text, encoding="utf-8")
    picture.draw(found, directory)
    content = {
        "run": store.run,
        "machine": store.machine,
        "seconds": round(seconds, 1),
        "rows": as_json(found),
        "samples": store.as_json(),
        "text": text,
    }
    (directory / "table.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return content


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a rough table: one round of less, under three minutes")
    parser.add_argument("--rows", metavar="REGEX", help="run only measurements with a matching row id")
    parser.add_argument("--rounds", type=int, help="number of rounds")
    parser.add_argument("--resume", action="store_true", help="resume an interrupted run")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="output format")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY, help="directory of all files")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
