"""Offsets: for each topic or partition, the position of the next entry to read, as JSON.

The offset at the end of a batch of a stream also states how the batch is divided among tasks. So a batch that is
planned again after a restart has the same tasks, although the topic has changed meanwhile.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.spark.read.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Json = dict[str, Any]


class TopicOffset(NamedTuple):
    """The end of a batch in one topic."""

    next: Position
    """Position of the next entry to read."""
    tasks: tuple[tuple[Position, int], ...] = ()
    """The tasks of the batch: the end of each range, exclusive, and its number of entries. None without entries."""


def offsets_of(nexts: Mapping[str, Position], ranges: Iterable[Range]) -> dict[str, TopicOffset]:
    """Return the end of a batch of ``ranges``, those of each topic in order; ``nexts`` has all topics."""
    tasks = {
        topic: tuple((one.end, one.entries) for one in group) for topic, group in groupby(ranges, lambda one: one.topic)
    }
    return {topic: TopicOffset(position, tasks.get(topic, ())) for topic, position in nexts.items()}


def ranges_between(starts: Mapping[str, TopicOffset], ends: Mapping[str, TopicOffset]) -> list[Range]:
    """Return the ranges of the tasks of a batch; a topic without a start is read from its beginning."""
    ranges = []
    for topic, end in ends.items():
        begin = starts[topic].next if topic in starts else EARLIEST
        if begin >= end.next:
            continue
        for last, entries in end.tasks:
            ranges.append(Range(topic, begin, last, entries))
            begin = last
    return ranges


def encode_offsets(offsets: Mapping[str, TopicOffset]) -> Json:
    """Return the offset of a stream for Spark, which stores it as JSON."""
    return {
        topic: {"next": str(offset.next), "tasks": [[str(end), entries] for end, entries in offset.tasks]}
        for topic, offset in sorted(offsets.items())
    }


def decode_offsets(offsets: Mapping[str, Json]) -> dict[str, TopicOffset]:
    """Return the offsets of a stream by topic; raises ValueError for one that this source did not write."""
    try:
        return {
            topic: TopicOffset(
                Position.parse(offset["next"]),
                tuple((Position.parse(end), entries) for end, entries in offset["tasks"]),
            )
            for topic, offset in offsets.items()
        }
    except (KeyError, TypeError) as error:
        message = (
            f"offset {json.dumps(offsets)} was not written by this version of the data source"
            "\nhint: start the query with another checkpoint"
        )
        raise ValueError(message) from error
