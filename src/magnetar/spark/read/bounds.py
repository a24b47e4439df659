"""Starts and ends of a query, as its options state them: positions, or times, for all topics or by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from magnetar.base.errors import ConfigurationError
from magnetar.spark.read.option_values import parse_offsets, parse_times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.spark.read.cluster import Cluster
    from magnetar.spark.read.options import ReadOptions

    BoundT = TypeVar("BoundT", Position, int)


def starts_of(cluster: Cluster, options: ReadOptions, topics: Iterable[str]) -> dict[str, Position]:
    """Return the position of the first entry of each topic that a query reads; raises as Cluster."""
    if options.starting_time:
        times = _for_each(topics, "startingTime", parse_times("startingTime", options.starting_time))
        return {topic: cluster.position_at(topic, time_ms) for topic, time_ms in times.items()}
    return _for_each(topics, "startingOffsets", parse_offsets("startingOffsets", options.starting_offsets))


def ends_of(cluster: Cluster, options: ReadOptions, topics: Iterable[str]) -> dict[str, Position]:
    """Return the position after the last entry of each topic that a query reads; raises as Cluster."""
    if options.ending_time:
        times = _for_each(topics, "endingTime", parse_times("endingTime", options.ending_time))
        return {topic: cluster.position_at(topic, time_ms) for topic, time_ms in times.items()}
    return _for_each(topics, "endingOffsets", parse_offsets("endingOffsets", options.ending_offsets))


def _for_each(topics: Iterable[str], option: str, given: BoundT | dict[str, BoundT]) -> dict[str, BoundT]:
    if not isinstance(given, dict):
        return dict.fromkeys(topics, given)
    missing = [topic for topic in topics if topic not in given]
    if missing:
        message = f"option {option} has no value for {', '.join(missing)}"
        raise ConfigurationError(message)
    return {topic: given[topic] for topic in topics}
