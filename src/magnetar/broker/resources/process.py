"""What a process that is a broker is set to, as a whole."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

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


def machine_memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory of the machine, or the least that a control group of this process may take.

    ``root`` is where the system's files are.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_control_group_limits(root)])


def _control_group_limits(root: Path) -> list[int]:
    """Return the memory limits of the control groups that this process is in, of both versions."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    limits: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = ("memory", "memory.limit_in_bytes") if controllers else ("", "memory.max")
        directory = root / "sys/fs/cgroup" / base
        # In a container the path may be the host's, of which only the end is here: all groups on the way are asked.
        for part in ("", *path.strip("/").split("/")):
            directory /= part
            text = _text_of(directory / name)
            if text.isdecimal():
                limits.append(int(text))
    return limits


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def resident_bytes() -> int:
    """Return the memory that this process takes now."""
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def tune() -> None:
    """Set the process up."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
