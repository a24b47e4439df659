"""Samples of one kind of object as Prometheus text, which requires the samples of a metric to be consecutive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Stats = TypeVar("Stats")

CHUNK_LINES = 1000
"""Maximum number of lines of one chunk of text, about 120 bytes each; less than one millisecond of work."""


class Metric(NamedTuple, Generic[Stats]):
    """A metric with one sample for each object of a kind."""

    name: str
    """Exposed name; the name of a counter ends with ``_total``."""
    value_of: Callable[[Stats], float | None]
    """Reads the value; None: no sample."""
    documentation: str
    combine: Callable[[float, float], float] | None = None
    """Combines the values of the topics of a namespace; None: the metric has no value for a namespace."""
    kind: str = "gauge"


class Table(Generic[Stats]):
    """The samples of all objects of one kind. Objects with the same labels are combined."""

    def __init__(self, metrics: Iterable[Metric[Stats]]) -> None:
        """Begin without objects."""
        self._metrics = tuple(metrics)
        self._readers = [metric.value_of for metric in self._metrics]
        self._rows: dict[str, Sequence[float | None]] = {}
        """The values of each object, by its labels."""

    def add(self, labels: str, stats: Stats) -> None:
        """Add an object."""
        self.add_values(labels, [read(stats) for read in self._readers])

    def add_values(self, labels: str, values: Sequence[float | None]) -> None:
        """Add an object with the values of all metrics."""
        before = self._rows.get(labels)
        self._rows[labels] = values if before is None else self._combined(before, values)

    def _combined(self, before: Sequence[float | None], values: Sequence[float | None]) -> Sequence[float | None]:
        return [
            new if old is None or metric.combine is None else old if new is None else metric.combine(old, new)
            for metric, old, new in zip(self._metrics, before, values, strict=True)
        ]

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in chunks of at most CHUNK_LINES lines."""
        labels = list(self._rows)
        columns: Iterator[tuple[float | None, ...]] = zip(*self._rows.values(), strict=True)
        # Without objects there are no columns.
        for metric, column in zip(self._metrics, columns if labels else [()] * len(self._metrics), strict=True):
            name = metric.name
            yield f"# HELP {name} {metric.documentation}\n# TYPE {name} {metric.kind}\n".encode()
            for first in range(0, len(labels), CHUNK_LINES):
                end = first + CHUNK_LINES
                yield _lines(name, labels[first:end], column[first:end]).encode()


def _lines(name: str, labels: Sequence[str], values: Sequence[float | None]) -> str:
    """Return the samples of a metric."""
    same = values[0]
    if values.count(same) < len(values):
        lines = [f"{name}{{{of}}} {value}\n" for of, value in zip(labels, values, strict=True) if value is not None]
        return "".join(lines)
    if same is None:
        return ""
    # Many figures are the same for most topics, such as 0. This is several times as fast.
    between = f"}} {same}\n{name}{{"
    return f"{name}{{{between.join(labels)}}} {same}\n"


def label(name: str, value: str) -> str:
    """Return one label, escaped."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'{name}="{escaped}"'
