"""Statistics of a partitioned topic: the sum over its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

from magnetar.admin.models.model import Model
from magnetar.admin.models.topics import TopicStats

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_GREATEST = frozenset(
    {
        "backlog_quota_limit_size",
        "backlog_quota_limit_time",
        "oldest_backlog_message_age_seconds",
        "progress_age_seconds",
        "progress_applied",
        "replication_delay_in_seconds",
        "topic_epoch",
    }
)
_UNKNOWN_IN_SUM = frozenset({"progress_age_seconds", "progress_lost", "progress_unconfirmed"})
"""Fields whose sum is unknown if the value of any partition is unknown."""

_MOMENTS = ("timestamp", "time_stamp", "time_in_backlog", "time_in_backlogs")

Stats = TypeVar("Stats", bound=Model)


@dataclass(slots=True, kw_only=True)
class PartitionedTopicStats(TopicStats):
    """Return the sum of the partitions' statistics."""

    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def steps(cls, parts: Sequence[TopicStats]) -> Generator[None, None, Self]:
        """Sum up ``parts``, at least one, in steps."""
        total = cls(metadata={"partitions": len(parts), "deleted": False})
        summed = parts[0]
        for part in parts[1:]:
            summed = _sum(summed, part)
            yield
        for each in fields(TopicStats):
            setattr(total, each.name, getattr(summed, each.name))
        # Rates of partitions add up; average sizes do not.
        total.average_msg_size = total.msg_throughput_in / total.msg_rate_in if total.msg_rate_in else 0.0
        total.owner_broker = None
        return total


def _sum(first: Stats, second: Stats) -> Stats:
    names = [each.name for each in fields(first)]
    return type(first)(**{name: _merge(name, getattr(first, name), getattr(second, name)) for name in names})


def _merge(name: str, first: Any, second: Any) -> Any:  # noqa: ANN401 - the values of any field
    """Merge two values of the field ``name``: numbers are added, collections united, of texts the first is kept."""
    match first, second:
        case (bool(), bool()):
            merged: Any = first or second
        case (int() | float(), int() | float()):
            merged = max(first, second) if name in _GREATEST or name.endswith(_MOMENTS) else first + second
        case (None, int() | float()) | (int() | float(), None) if name in _UNKNOWN_IN_SUM:
            merged = None
        case (list(), list()):
            merged = first + second
        case (dict(), dict()):
            shared = {key: _merge(name, first[key], second[key]) for key in first if key in second}
            merged = first | second | shared
        case (Model(), Model()):
            merged = _sum(first, second)
        case _:
            merged = second if first is None else first
    return merged
