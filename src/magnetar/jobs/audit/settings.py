"""Settings of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.pipeline.driver.settings import IN_THIS_PROCESS, SparkSettings

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.pipeline.options import ClusterAddress


@dataclass(frozen=True, slots=True)
class Settings:
    """What is compared, and how."""

    clusters: tuple[ClusterAddress, ...]
    topics: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    state: Path | None = None
    """Directory that makes the audit incremental and resumable."""
    findings: Path | None = None
    """Directory of the findings as Parquet; it must not exist."""
    settle_seconds: float = 10.0
    """Time in which an acknowledgement arrives in all clusters."""
    spark: SparkSettings = IN_THIS_PROCESS
