"""What a process that is a broker is set to, as a whole."""

from __future__ import annotations

import gc
import resource
import sys

GC_THRESHOLD = 100_000
"""Allocations between two looks for cycles: what the hot path makes is freed by reference counts alone."""

SWITCH_INTERVAL_S = 0.0005
"""How long a thread that computes may keep another one waiting; Python's default is ten times that.

The thread that commits to the log waits for its turn after each write and each sync, with the disk idle.
"""


DESCRIPTORS_RESERVED = 256
"""Open files that are kept for the log, the metadata store and links; connections get the others."""

HTTP_SHARE = 8
"""REST gets one of so many connections at most."""

DESCRIPTORS_MAX = 1 << 20
"""Open files that a broker asks for if the system would grant more."""


def raise_descriptor_limit() -> int:
    """Ask for as many open files as the system grants this process; return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems name a hard limit and grant less
        return soft
    return wanted


def connections_max(configured: int, configured_http: int, descriptors: int) -> tuple[int, int]:
    """Return how many connections a broker with so many open files may accept, of the binary protocol and of REST.

    Each is at least one. DESCRIPTORS_RESERVED, or half of the files, are left for the broker itself, and REST takes at
    most its share of the others, so that its clients cannot keep those of the binary protocol out.
    """
    room = max(descriptors - DESCRIPTORS_RESERVED, descriptors // 2)
    http = max(1, min(configured_http, room // HTTP_SHARE))
    return max(1, min(configured, room - http)), http


def tune() -> None:
    """Set the process up, once everything is loaded."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
