"""Settings of the metrics."""

# ruff: noqa: N815 - the settings carry Pulsar's names

from __future__ import annotations

from pydantic import BaseModel, Field


class MetricsSettings(BaseModel):
    """Metrics."""

    exposeTopicLevelMetricsInPrometheus: bool = Field(
        default=True,
        description="Metrics for each topic, subscription and link; otherwise for each namespace. In large clusters, "
        "metrics for each topic need much storage in Prometheus.",
    )
    exposeConsumerLevelMetricsInPrometheus: bool = Field(
        default=False, description="Metrics for each consumer, if there are metrics for each topic."
    )
    exposeProducerLevelMetricsInPrometheus: bool = Field(
        default=False, description="Metrics for each producer, if there are metrics for each topic."
    )
    splitTopicAndPartitionLabelInPrometheus: bool = Field(
        default=False,
        description="Show the index of a partition as a label of its own: `topic` is the partitioned topic, and "
        "`partition` the index, -1 for a topic without partitions.",
    )
    metricsBufferResponse: bool = Field(
        default=False, description="Answer requests for metrics with a stored answer for up to 10 seconds."
    )
