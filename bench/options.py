"""The options that the benchmarks share which are measured apart, without Apache Pulsar."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path


def parse(name: str, description: str, quick: str) -> argparse.Namespace:
    """Parse the command line of ``bench.<name>`` (quick, output, directory); ``quick`` says what --quick does.

    The directory is there, and empty, on return.
    """
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="what to print")
    parser.add_argument("--directory", type=Path, default=Path("build") / "bench" / name, help="where the files go")
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    return options
