"""Common options of the benchmarks without Apache Pulsar."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path


def parse(name: str, description: str, quick: str) -> argparse.Namespace:
    """Parse the command line of ``bench.<name>`` (quick, output, directory); ``quick`` is the help text of --quick.

    The directory exists and is empty on return.
    """
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="output format")
    parser.add_argument("--directory", type=Path, default=Path("build") / "bench" / name, help="directory of all files")
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    return options
