"""What a process that is a broker is set to, as a whole."""

from __future__ import annotations

import gc
import sys

GC_THRESHOLD = 100_000
"""Allocations between two looks for cycles: what the hot path makes is freed by reference counts alone."""

SWITCH_INTERVAL_S = 0.0005
"""How long a thread that computes may keep another one waiting; Python's default is ten times that.

The thread that commits to the log waits for its turn after each write and each sync, with the disk idle.
"""


def tune() -> None:
    """Set the process up, once everything is loaded."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
