"""The parent of Spark's Python workers, which imports their modules before it forks them.

Workers start at once, and share the memory of the modules. Spark starts one such parent for each kind of worker:
``python -m magnetar.pipeline.worker_daemon pyspark.worker``.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

CARRIER = "pyspark.worker"
"""The kind of the workers that read and write entries. There are several of these; the others are used once."""

MODULES = ("magnetar.pipeline.driver.source", "magnetar.pipeline.reading.reader", "magnetar.pipeline.writing.writer")
"""Modules that tasks of the links import."""


def main() -> None:
    """Import the modules, and fork workers until Spark closes the standard input."""
    if sys.argv[1] == CARRIER:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a forked process has no threads of its parent
        for module in ("pandas", CARRIER, *MODULES):
            importlib.import_module(module)
    from pyspark.daemon import manager  # noqa: PLC0415 - it imports the worker that the arguments name

    gc.collect()
    gc.freeze()  # a collection in a worker would write to the shared memory, and so copy it
    manager()


if __name__ == "__main__":
    main()
