"""Percentiles of measurements, and a description of the machine."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_SYNC_SAMPLES = 50


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """Return p50 to p99.9 and max by nearest rank; raises ValueError when there is no value."""
    ordered = sorted(values)
    if not ordered:
        message = "no values: nothing was measured"
        raise ValueError(message)
    ranks = {f"p{point:g}": ordered[min(int(len(ordered) * point / 100), len(ordered) - 1)] for point in PERCENTILES}
    return {**ranks, "max": ordered[-1]}


def describe_machine(directory: Path) -> dict[str, object]:
    """Return the properties of the machine: processors, memory, system, and the sync latency of ``directory``."""
    cpu_lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in cpu_lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": models[0] if models else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "fdatasync_ms_p50": round(_sync_ms(directory), 2),
    }


def _sync_ms(directory: Path) -> float:
    """Return the median time to append and sync 4 KiB, in milliseconds."""
    probe = directory / "sync.probe"
    samples = []
    with probe.open("ab", buffering=0) as file:
        for _ in range(_SYNC_SAMPLES):
            started = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            samples.append((time.perf_counter() - started) * 1000)
    probe.unlink()
    return sorted(samples)[_SYNC_SAMPLES // 2]
