"""Process settings of a Spark worker that carries links."""

from __future__ import annotations

import gc
import sys

GC_THRESHOLD = 100_000
"""Allocations between two runs of the cyclic garbage collector. Entries in flight are freed by reference counting."""

SWITCH_INTERVAL_S = 0.0005
"""Thread switch interval: a writer's loop must not wait 5 ms for the thread that takes rows from Spark."""


def tune() -> None:
    """Apply the settings; a reused process gets them again for each task.

    Modules are exempted from the collector, because otherwise each full run takes 10 ms or more, and a task with a
    backlog has many of them. Objects that the process shares with its parent are not touched.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if gc.get_threshold()[0] != GC_THRESHOLD:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
    else:
        gc.collect()
