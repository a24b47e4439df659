"""Samples of one kind of object as Prometheus text, which requires the samples of a metric to be consecutive."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

Stats = TypeVar("Stats")

CHUNK_LINES = 1000
"""Maximum number of lines of one chunk of text, about 120 bytes each; less than one millisecond of work."""

REMOVED_AT_ONCE = 100
"""Maximum number of objects whose samples are removed together, each with up to a hundred values."""


class Metric(NamedTuple, Generic[Stats]):
    """A metric with one sample for each object of a kind."""

    name: str
    """Exposed name; the name of a counter ends with ``_total``."""
    value_of: str | Callable[[Stats], float | None]
    """Attribute with the value, or function that reads it; None: no sample."""
    documentation: str
    combine: Callable[[float, float], float] | None = None
    """Combines the values of the topics of a namespace; None: the metric has no value for a namespace.

    None for a counter, whose sum over the loaded topics would go back.
    """
    kind: str = "gauge"
    is_unknown_if_any_is: bool = False
    """Whether a combined value is unknown if that of any topic is; otherwise topics without a value do not count."""

    def combined(self, old: float | None, new: float | None) -> float | None:
        """Return the value of two topics together; None: unknown."""
        if self.combine is None:
            return new
        if old is None or new is None:
            return None if self.is_unknown_if_any_is else new if old is None else old
        return self.combine(old, new)


class Table(Generic[Stats]):
    """The samples of all objects of one kind. Objects with the same labels are combined."""

    def __init__(self, metrics: Iterable[Metric[Stats]], summed: Collection[str] = ()) -> None:
        """Begin without objects; ``summed``: names of metrics whose sum over all objects is needed."""
        attributes: list[tuple[Metric[Stats], str]] = []
        functions: list[tuple[Metric[Stats], Callable[[Stats], float | None]]] = []
        for metric in metrics:
            if isinstance(metric.value_of, str):
                attributes.append((metric, metric.value_of))
            else:
                functions.append((metric, metric.value_of))
        self._metrics = [metric for metric, _ in (*attributes, *functions)]
        self._attributes: Callable[[Stats], Iterable[Any]] = _together([name for _, name in attributes])
        self._functions = [function for _, function in functions]
        self.sums = dict.fromkeys(summed, 0.0)
        """The sums after all chunks were read."""
        self._rows: dict[str, Sequence[float | None]] = {}
        """The values of each object, by its labels."""

    def add(self, labels: str, stats: Stats) -> None:
        """Add an object."""
        self.add_values(labels, [*self._attributes(stats), *[function(stats) for function in self._functions]])

    def add_values(self, labels: str, values: Sequence[float | None]) -> None:
        """Add an object with the values of all metrics."""
        before = self._rows.get(labels)
        self._rows[labels] = values if before is None else self._combined(before, values)

    def _combined(self, before: Sequence[float | None], values: Sequence[float | None]) -> Sequence[float | None]:
        return [metric.combined(old, new) for metric, old, new in zip(self._metrics, before, values, strict=True)]

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in chunks of at most CHUNK_LINES lines, and remove the samples.

        The last chunks are empty: some samples are removed before each of them.
        """
        labels = list(self._rows)
        columns: Iterator[tuple[float | None, ...]] = zip(*self._rows.values(), strict=True)
        # Without objects there are no columns.
        for metric, column in zip(self._metrics, columns if labels else [()] * len(self._metrics), strict=True):
            name = metric.name
            if name in self.sums:
                self.sums[name] = sum(value or 0 for value in column)
            yield f"# HELP {name} {metric.documentation}\n# TYPE {name} {metric.kind}\n".encode()
            for first in range(0, len(labels), CHUNK_LINES):
                end = first + CHUNK_LINES
                yield _lines(name, labels[first:end], column[first:end]).encode()
        while self._rows:
            for _ in range(min(len(self._rows), REMOVED_AT_ONCE)):
                self._rows.popitem()
            yield b""


def _together(attributes: Sequence[str]) -> Callable[[Any], Iterable[Any]]:
    """Return a function that reads all attributes, which is faster than one function for each."""
    match attributes:
        case []:
            return lambda _: ()
        case [single]:
            read = attrgetter(single)
            return lambda stats: (read(stats),)
    return attrgetter(*attributes)


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
