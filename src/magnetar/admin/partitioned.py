"""Statistics of a partitioned topic: the sum over its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

from magnetar.admin.models.model import Model
from magnetar.admin.models.topics import ReplicatorStats, TopicStats

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_GREATEST = frozenset(
    {
        "ack_state_used",
        "age_seconds",
        "backlog_quota_limit_size",
        "backlog_quota_limit_time",
        "oldest_backlog_message_age_seconds",
        "progress_age_seconds",
        "progress_applied",
        "replication_delay_in_seconds",
        "topic_epoch",
    }
)
_UNKNOWN_IN_SUM = frozenset(
    {
        "age_seconds",
        "progress_age_seconds",
        "progress_lost",
        "progress_unconfirmed",
        "replication_backlog",
        "replication_delay_in_seconds",
    }
)
"""Fields whose sum is unknown if the value of any partition is unknown."""

_OF_ALL = frozenset({"connected"})
"""Truth values that are true if they are for all partitions; the others, if they are for any."""

_MOMENTS = ("timestamp", "time_stamp")

_EARLIEST = ("time_in_backlog", "time_in_backlogs")
"""Times of which the earliest counts; 0 is none."""

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
        for each in fields(summed):
            setattr(total, each.name, getattr(summed, each.name))
        # Rates of partitions add up; average sizes do not.
        total.average_msg_size = total.msg_throughput_in / total.msg_rate_in if total.msg_rate_in else 0.0
        total.owner_broker = None
        return total


@dataclass(slots=True, kw_only=True)
class PartitionedNonPersistentTopicStats(PartitionedTopicStats):
    """Return the sum of the partitions' statistics."""

    msg_drop_rate: float = 0.0


def _sum(first: Stats, second: Stats) -> Stats:
    names = [each.name for each in fields(first)]
    return type(first)(**{name: _merge(name, getattr(first, name), getattr(second, name)) for name in names})


def _merge(name: str, first: Any, second: Any) -> Any:  # noqa: ANN401 - the values of any field
    """Merge two values of the field ``name``: numbers are added, collections united, of texts the first is kept."""
    match first, second:
        case (bool(), bool()):
            merged: Any = first and second if name in _OF_ALL else first or second
        case (int(), int()) if name.endswith(_EARLIEST):
            merged = min(first or second, second or first)
        case (int() | float(), int() | float()):
            merged = max(first, second) if name in _GREATEST or name.endswith(_MOMENTS) else first + second
        case (None, int() | float()) | (int() | float(), None) if name in _UNKNOWN_IN_SUM:
            merged = None
        case (list(), list()):
            merged = list(dict.fromkeys(first + second)) if name == "clusters_not_counted" else first + second
        case (dict(), dict()):
            shared = {key: _merge(_name_of(name, key), first[key], second[key]) for key in first if key in second}
            merged = first | second | shared
        case (ReplicatorStats(), ReplicatorStats()):
            merged = _sum(first, second)
            if merged.replication_backlog is None:
                merged.replication_backlog_at_least = _backlog_at_least(first) + _backlog_at_least(second)
        case (Model(), Model()):
            merged = _sum(first, second)
        case _:
            merged = second if first is None else first
    return merged


def _name_of(field: str, key: str) -> str:
    """Return the name by which the values of ``key`` in a dictionary of ``field`` are merged."""
    return key if field == "progress_applied" and key == "count" else field


def _backlog_at_least(link: ReplicatorStats) -> int:
    return (link.replication_backlog_at_least if link.replication_backlog is None else link.replication_backlog) or 0
