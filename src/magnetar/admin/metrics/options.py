"""Selection of the exposed metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Selection of the exposed metrics. The defaults are those of Pulsar."""

    by_topic: bool = True
    """Whether each topic has samples; otherwise those of its namespace are combined."""
    by_consumer: bool = False
    """Whether each consumer has samples; requires ``by_topic``."""
    by_producer: bool = False
    """Whether each producer has samples; requires ``by_topic``."""
    split_partition: bool = False
    """Whether a partition has the name of its partitioned topic, and its index as another label."""
    reused_s: float = 0.0
    """Seconds for which an answer is reused."""
