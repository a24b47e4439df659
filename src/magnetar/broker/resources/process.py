"""Limits and settings of the broker's process."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

SWITCH_INTERVAL_S = 0.0005
"""Switch interval of threads in seconds; Python's default is ten times as long.

The thread that commits to the log waits for the interpreter after each write and each sync, while the disk is idle.
"""

DESCRIPTORS_RESERVED = 256
"""Number of file descriptors reserved for the log, the metadata store and links; connections use the others."""

HTTP_SHARE = 8
"""REST gets at most one of this many connections."""

DESCRIPTORS_MAX = 1 << 20
"""Number of file descriptors that a broker requests at most."""


def raise_descriptor_limit() -> int:
    """Raise the limit of file descriptors as far as permitted; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems report a higher hard limit than they grant
        return soft
    return wanted


def connections_max(configured: int, configured_http: int, descriptors: int) -> tuple[int, int]:
    """Return the maximum numbers of connections of the binary protocol and of REST for a limit of file descriptors.

    Each is at least one. DESCRIPTORS_RESERVED, or half of the descriptors, are reserved for the broker itself. REST
    gets at most its share of the others, so that its clients cannot lock out those of the binary protocol.
    """
    room = max(descriptors - DESCRIPTORS_RESERVED, descriptors // 2)
    http = max(1, min(configured_http, room // HTTP_SHARE))
    return max(1, min(configured, room - http)), http


def machine_memory_bytes(root: Path = Path("/")) -> int:
    """Return the memory of the machine, or the lowest memory limit of this process's control groups.

    ``root`` is the root directory of the system's files.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_control_group_limits(root)])


def _control_group_limits(root: Path) -> list[int]:
    """Return the memory limits of this process's control groups, of cgroup versions 1 and 2."""
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
        # In a container the path may be the host's, and only its end exists here: read the groups of all parent paths.
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
    """Return the resident memory of this process in bytes."""
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def allocated_blocks() -> int:
    """Return the number of memory blocks that the objects of this process use."""
    return sys.getallocatedblocks()


def tune() -> None:
    """Apply the settings to this process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
