"""Settings of the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.pipeline.driver.settings import IN_THIS_PROCESS, SparkSettings

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from magnetar.pipeline.options import ClusterAddress


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """What is archived, and how."""

    cluster: ClusterAddress
    directory: Path
    """The archive; a new one is created."""
    topics: tuple[str, ...] = ()
    topics_pattern: str = ""
    """Instead of ``topics``: a regular expression for the topics of one namespace."""
    interval_seconds: float | None = None
    """Time between two batches of a job that goes on until it is stopped; None: it ends with the newest message."""
    subscription: str = ""
    """A subscription that follows the archive, so that brokers keep messages until they are archived."""
    fail_on_data_loss: bool = True
    """Whether the job fails if messages were deleted before they were archived."""
    spark: SparkSettings = IN_THIS_PROCESS


@dataclass(frozen=True, slots=True)
class RestoreSettings:
    """What is restored, and where."""

    cluster: ClusterAddress
    directory: Path
    """The archive."""
    topics: tuple[str, ...] = ()
    """Topics of the archive; empty: all."""
    to: str = ""
    """The target of a single topic, or ``source=target`` for several, separated by commas. Others keep their names."""
    start_time: datetime | None = None
    """Earliest publish time, inclusive."""
    end_time: datetime | None = None
    """Latest publish time, exclusive."""
    is_append: bool = False
    """Whether topics that have messages already are accepted."""
    compression: str = "NONE"
    spark: SparkSettings = IN_THIS_PROCESS
