"""Filters of a batch query that are decided before messages are unpacked: by topic, position, publish time, producer.

Spark evaluates all filters again, so a filter here only needs to keep every row that may match.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from magnetar.base.position import EARLIEST, LATEST, Position
from magnetar.spark import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql.datasource import Filter

    from magnetar.spark.read.batches.messages import Stored

    Value = Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS = 1000
"""Microseconds in a millisecond."""

_OPERATORS: Mapping[type[Filter], Callable[[Value, Value], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}

_OF_ENTRIES: Mapping[str, Callable[[Stored], Value]] = {
    columns.LEDGER_ID: lambda stored: stored.position.ledger_id,
    columns.ENTRY_ID: lambda stored: stored.position.entry_id,
    columns.PUBLISH_TIME: lambda stored: stored.metadata.publish_time * _MICROSECONDS,
    columns.PRODUCER_NAME: lambda stored: stored.metadata.producer_name,
}
_TYPES: Mapping[str, type] = {
    columns.TOPIC: str,
    columns.LEDGER_ID: int,
    columns.ENTRY_ID: int,
    columns.PUBLISH_TIME: datetime,
    columns.PRODUCER_NAME: str,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one column; times are in microseconds since the epoch."""

    column: str
    compare: Callable[[Value, Value], bool]
    values: tuple[Value, ...]
    """The condition holds if it holds for one of them."""

    def holds(self, value: Value) -> bool:
        """Return whether the condition holds for a value of the column."""
        return any(self.compare(value, each) for each in self.values)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that all hold for the rows of a query."""

    all_of: tuple[Condition, ...] = ()

    def topics(self, names: Iterable[str]) -> list[str]:
        """Return the topics that may have rows."""
        tests = self._on(columns.TOPIC)
        return [name for name in names if all(test.holds(name) for test in tests)]

    def bounds(self) -> tuple[Position, Position]:
        """Return the start, and the end, exclusive, of the positions that may have rows."""
        first, last = _interval(self._on(columns.LEDGER_ID))
        start, end = EARLIEST, LATEST
        if first is not None:
            start = Position(first, 0)
        if last is not None:
            end = Position(last + 1, 0)
        if first is not None and first == last:
            low, high = _interval(self._on(columns.ENTRY_ID))
            start = start if low is None else Position(first, low)
            end = end if high is None else Position(first, high + 1)
        return start, end

    def select(self, entries: Sequence[Stored]) -> Sequence[Stored]:
        """Return the entries that may have rows."""
        tests = [(_OF_ENTRIES[test.column], test) for test in self.all_of if test.column in _OF_ENTRIES]
        return [one for one in entries if all(test.holds(get(one)) for get, test in tests)] if tests else entries

    def _on(self, column: str) -> list[Condition]:
        return [test for test in self.all_of if test.column == column]


NO_CONDITIONS = Conditions()


def conditions_of(filters: Iterable[Filter]) -> Conditions:
    """Return the conditions of those filters that can be decided early."""
    found = map(_condition, filters)
    return Conditions(tuple(condition for condition in found if condition is not None))


def _condition(wanted: Filter) -> Condition | None:
    if not isinstance(wanted, In | EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None
    column = ".".join(wanted.attribute)
    values = tuple(wanted.value) if isinstance(wanted, In) else (wanted.value,)
    kind = _TYPES.get(column)
    if kind is None or not all(isinstance(value, kind) for value in values):
        return None
    if kind is datetime:
        if any(value.tzinfo is None for value in values):
            return None
        values = tuple((value - _EPOCH) // _MICROSECOND for value in values)
    return Condition(column, _OPERATORS.get(type(wanted), operator.eq), values)


def _interval(tests: Iterable[Condition]) -> tuple[int | None, int | None]:
    """Return the least and the greatest number for which the conditions may hold; None for no bound."""
    lows, highs = list[int](), list[int]()
    for test in tests:
        least, greatest = min(test.values), max(test.values)
        if test.compare in (operator.eq, operator.gt, operator.ge):
            lows.append(least + (test.compare is operator.gt))
        if test.compare in (operator.eq, operator.lt, operator.le):
            highs.append(greatest - (test.compare is operator.lt))
    return max(lows, default=None), min(highs, default=None)
