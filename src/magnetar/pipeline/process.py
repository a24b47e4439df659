"""Settings of a Spark worker's process while it carries links."""

from __future__ import annotations

import gc
import sys

GC_THRESHOLD = 100_000
"""Allocations between two runs of the collector of cycles. Entries under way are freed by their reference counts."""

SWITCH_INTERVAL_S = 0.0005
"""Switch interval of Python's threads: a writer's loop does not wait 5 ms for the thread that takes rows from Spark."""


def tune() -> None:
    """Set the process up for one task; a process that is used again is set up anew.

    Modules are exempted from the collector. Otherwise each of its full runs takes 10 ms and more, and a task that
    carries a backlog has many of them.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
