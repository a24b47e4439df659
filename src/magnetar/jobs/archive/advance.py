"""The advance of the query that writes an archive, from Spark's progress events. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.base.position import EARLIEST
from magnetar.spark.read.offsets import decode_offsets, ranges_between
from magnetar.spark.read.planning import end_of
from magnetar.spark.read.ranges import entries_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.base.position import Position
    from magnetar.spark.read.offsets import TopicOffset
    from magnetar.spark.read.ranges import Log


@dataclass(slots=True)
class Advance:
    """What one run has archived."""

    ends: dict[str, Position] = field(default_factory=dict)
    """By topic or partition, the position of the next entry to archive."""
    entries: dict[str, int] = field(default_factory=dict)
    """Number of archived entries by topic or partition."""
    messages: int = 0
    batches: int = 0
    _newest: int = -1

    def note(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take progress events of Spark in their order; those that were taken before are ignored."""
        for event in events:
            (source,) = event["sources"]
            starts, ends = (_offsets(source[name]) for name in ("startOffset", "endOffset"))
            ranges = ranges_between(starts, ends)
            if event["batchId"] <= self._newest or not ranges:
                continue
            self._newest = event["batchId"]
            self.ends |= {topic: offset.next for topic, offset in ends.items()}
            self.messages += event["numInputRows"]
            self.batches += 1
            for one in ranges:
                self.entries[one.topic] = self.entries.get(one.topic, 0) + one.entries

    @property
    def done(self) -> int:
        """Number of archived entries."""
        return sum(self.entries.values())

    def remaining(self, logs: Mapping[str, Log]) -> int:
        """Return the number of entries in ``logs`` that are not archived."""
        return sum(entries_in(log.ledgers, self.ends.get(topic, EARLIEST), end_of(log)) for topic, log in logs.items())


def _offsets(text: str | None) -> dict[str, TopicOffset]:
    return decode_offsets(json.loads(text or "null") or {})
