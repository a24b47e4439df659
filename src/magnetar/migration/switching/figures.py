"""The figures of a switch or a rollback. Pure, except for the lock."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class Figures:
    """What one run of the command has done and measured."""

    moved: list[str] = field(default_factory=list)
    """Topics and partitions whose clients were sent to the other cluster."""
    unavailable_ms: list[float] = field(default_factory=list)
    """By topic, without partitions: from the request for its fence until the route leads to the other cluster."""
    unmeasured: int = 0
    """Topics whose fence was requested by an earlier run."""
    _lock: Lock = field(default_factory=Lock)

    def routed(self, topics: Sequence[str], unavailable_s: float | None) -> None:
        """Note that a topic, with these partitions, has its route; None: its time is unknown."""
        with self._lock:
            self.moved += topics
            if unavailable_s is None:
                self.unmeasured += 1
            else:
                self.unavailable_ms.append(1000 * unavailable_s)


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the nearest-rank percentile; None without values."""
    if not values:
        return None
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]
