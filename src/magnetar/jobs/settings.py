"""Settings of all jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark on which a job runs."""

    master: str | None = None
    """Spark master; None: Spark runs in this process."""
    work_dir: Path | None = None
    """Parent directory of temporary files; None: that of all users' temporary files."""
    log: Path | None = None
    """File of Spark's own output, which is rotated; None: that of this process."""
