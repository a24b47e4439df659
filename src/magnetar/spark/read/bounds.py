"""Starts and ends of a query, as its options state them: positions, or times, for all topics or by topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from magnetar.base.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.spark.read.cluster import Cluster
    from magnetar.spark.read.options import Offsets, ReadOptions, Times

    BoundT = TypeVar("BoundT", Position, int)


def starts_of(cluster: Cluster, options: ReadOptions, topics: Iterable[str]) -> dict[str, Position]:
    """Return the position of the first entry of each topic that a query reads; raises as Cluster."""
    return _bounds(cluster, topics, "starting", options.starting_offsets, options.starting_time)


def ends_of(cluster: Cluster, options: ReadOptions, topics: Iterable[str]) -> dict[str, Position]:
    """Return the position after the last entry of each topic that a query reads; raises as Cluster."""
    return _bounds(cluster, topics, "ending", options.ending_offsets, options.ending_time)


def _bounds(
    cluster: Cluster, topics: Iterable[str], bound: str, offsets: Offsets, time: Times | None
) -> dict[str, Position]:
    """Return the positions at the times of an option, or those of the option with offsets if there are no times."""
    if time is None:
        return _for_each(topics, f"{bound}Offsets", offsets)
    times = _for_each(topics, f"{bound}Time", time)
    return {topic: cluster.position_at(topic, time_ms) for topic, time_ms in times.items()}


def _for_each(topics: Iterable[str], option: str, given: BoundT | dict[str, BoundT]) -> dict[str, BoundT]:
    if not isinstance(given, dict):
        return dict.fromkeys(topics, given)
    missing = [topic for topic in topics if topic not in given]
    if missing:
        message = f"option {option} has no value for {', '.join(missing)}"
        raise ConfigurationError(message)
    return {topic: given[topic] for topic in topics}
