"""A chunk: the runs of all clusters for some positions of one origin ledger, as arrays by position. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from magnetar.jobs.audit.tables import ANYWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from magnetar.jobs.audit.tables import Kind, Tally

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]


class Stretch(NamedTuple):
    """Consecutive elements of an array, without ``stop``."""

    start: int
    stop: int


class RunArrays(NamedTuple):
    """The runs of one cluster; starts are indexes in the arrays of the chunk."""

    starts: Longs
    counts: Longs
    ledgers: Longs
    entries: Longs
    digests: Longs
    targets: Sequence[str]


class Chunk:
    """Arrays have one element for each position from ``first`` on."""

    def __init__(self, runs: pa.Table) -> None:
        """Use runs, at least one, of one topic, origin and origin ledger."""
        self.topic: str = runs["topic"][0].as_py()
        self.origin: str = runs["origin"][0].as_py()
        self.origin_ledger: int = runs["origin_ledger"][0].as_py()
        firsts = runs["origin_entry"].to_numpy()
        self.first = int(firsts.min())
        self.size = int((firsts + runs["count"].to_numpy()).max()) - self.first
        self._runs = runs

    def row(self, kind: Kind | Tally, cluster: str, start: int, count: int, **further: object) -> dict[str, Any]:
        """Return a row of FINDINGS about ``count`` positions from index ``start`` on, with ``further`` columns."""
        return {
            "kind": kind.value,
            "topic": self.topic,
            "cluster": cluster,
            "origin": self.origin,
            "origin_ledger": self.origin_ledger,
            "origin_entry": self.first + start,
            "count": count,
            **further,
        }

    @cached_property
    def runs(self) -> dict[str, RunArrays]:
        """The runs by cluster."""
        clusters = np.array(self._runs["cluster"].to_pylist())
        found = {}
        for cluster in sorted(set(clusters.tolist())):
            rows = self._runs.filter(clusters == cluster)
            longs = [rows[name].to_numpy() for name in ("origin_entry", "count", "ledger", "entry", "digest")]
            starts, counts, ledgers, entries, digests = longs
            targets = rows["targets"].to_pylist()
            found[cluster] = RunArrays(starts - self.first, counts, ledgers, entries, digests, targets)
        return found

    @cached_property
    def copies(self) -> dict[str, Longs]:
        """How many times each cluster has each entry."""
        return {cluster: covered(self.size, runs.starts, runs.counts) for cluster, runs in self.runs.items()}

    def copies_in(self, cluster: str) -> Longs:
        """Return ``copies`` of a cluster, which may have no run."""
        return self.copies[cluster] if cluster in self.copies else np.zeros(self.size, np.int64)

    @cached_property
    def holders(self) -> Longs:
        """How many clusters have each entry."""
        return sum((np.minimum(copies, 1) for copies in self.copies.values()), np.zeros(self.size, np.int64))

    def is_meant_for(self, cluster: str) -> Mask:
        """Return which entries are replicated to a cluster; those of ``replicate_to`` only if it is listed."""
        meant = np.ones(self.size, np.bool_)
        if cluster == self.origin:
            return meant
        for runs in self.runs.values():
            for start, count, targets in zip(runs.starts, runs.counts, runs.targets, strict=True):
                if targets != ANYWHERE and cluster not in targets.split(","):
                    meant[start : start + count] = False
        return meant


def covered(size: int, starts: Longs, counts: Longs) -> Longs:
    """Return how many of the stretches cover each element of an array of ``size``."""
    steps = np.bincount(starts, minlength=size + 1) - np.bincount(starts + counts, minlength=size + 1)
    return np.cumsum(steps)[:size].astype(np.int64)


def stretches(mask: Mask) -> Iterator[Stretch]:
    """Yield the longest stretches of true elements, in order."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    yield from (Stretch(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True))
