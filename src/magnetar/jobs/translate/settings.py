"""Settings of a translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.pipeline.driver.settings import IN_THIS_PROCESS

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.pipeline.driver.settings import SparkSettings
    from magnetar.pipeline.options import ClusterAddress


@dataclass(frozen=True, slots=True)
class Settings:
    """What is translated, and how."""

    source: ClusterAddress
    """The cluster whose subscriptions are translated."""
    target: ClusterAddress
    topics: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    """Names of subscriptions; empty: all durable ones."""
    mapping: Path | None = None
    """Directory of the mapping of positions as Parquet; it must not exist."""
    state: Path | None = None
    """Directory that makes the translation incremental and resumable."""
    applies: bool = False
    """Whether the translated states are set in the target."""
    spark: SparkSettings = IN_THIS_PROCESS
