"""Comparison of the entries of a chunk: lost and repeated entries, and the runs whose contents may differ. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.jobs.audit.comparing.chunks import Chunk, stretches
from magnetar.jobs.audit.comparing.windows import EXPECTED, IN_FLIGHT, NOT_COMPARABLE, SKIPPED
from magnetar.jobs.audit.tables import BUCKET, FINDINGS, Kind, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from magnetar.jobs.audit.comparing.chunks import RunArrays
    from magnetar.jobs.audit.comparing.windows import Window

    Row = dict[str, Any]
    Longs = NDArray[np.int64]


def compare(runs: pa.Table, expected: Sequence[Window]) -> pa.Table:
    """Return the findings and tallies of a chunk with the ``runs`` of all clusters, at least one."""
    chunk = Chunk(runs)
    rows: list[Row] = []
    for window in expected:
        rows += _of_window(chunk, window)
        if window.cluster in chunk.runs:
            rows += _repeated(chunk, window.cluster)
    rows += _differing(chunk)
    return pa.Table.from_pylist(rows, FINDINGS)


def _of_window(chunk: Chunk, window: Window) -> Iterator[Row]:
    """Yield lost and skipped entries, and the number of entries by state."""
    is_held = chunk.copies_in(window.cluster) > 0
    states = window.states(chunk.origin_ledger, chunk.first, chunk.first + chunk.size)
    is_missing = (chunk.holders > 0) & ~is_held & chunk.is_meant_for(window.cluster)
    for kind, state in ((Kind.LOST, EXPECTED), (Kind.SKIPPED, SKIPPED)):
        for start, stop in stretches(is_missing & (states == state)):
            yield chunk.row(kind, window.cluster, start, stop - start)
    counts = {
        Tally.COMPARED: is_held & (chunk.holders > 1),
        Tally.IN_FLIGHT: is_missing & (states == IN_FLIGHT),
        Tally.NOT_COMPARABLE: is_missing & (states == NOT_COMPARABLE),
    }
    for tally, mask in counts.items():
        if mask.any():
            yield chunk.row(tally, window.cluster, int(mask.argmax()), int(mask.sum()))


def _repeated(chunk: Chunk, cluster: str) -> Iterator[Row]:
    """Yield all copies of entries but the first ones, in the order of the log."""
    is_repeated = chunk.copies[cluster] > 1
    if not is_repeated.any():
        return
    runs, seen = chunk.runs[cluster], np.zeros(chunk.size, np.bool_)
    for index in np.lexsort((runs.entries, runs.ledgers)):
        start, count = int(runs.starts[index]), int(runs.counts[index])
        again = seen[start : start + count].copy()
        for first, stop in stretches(again):
            ledger, entry = int(runs.ledgers[index]), int(runs.entries[index]) + first
            yield chunk.row(Kind.REPEATED, cluster, start + first, stop - first, ledger=ledger, entry=entry)
        seen[start : start + count] = True


def _differing(chunk: Chunk) -> Iterator[Row]:
    """Yield the runs of buckets that are not equal in all clusters that have entries of them."""
    if len(chunk.runs) < 2:  # noqa: PLR2004 - a comparison needs two
        return
    base = chunk.first // BUCKET
    buckets = (chunk.first + chunk.size - 1) // BUCKET - base + 1
    counts = np.zeros((len(chunk.runs), buckets), np.int64)
    digests = np.zeros_like(counts)
    for number, runs in enumerate(chunk.runs.values()):
        places = _buckets_of(chunk, runs) - base
        np.add.at(counts[number], places, runs.counts)
        np.bitwise_xor.at(digests[number], places, runs.digests)
    fullest = counts.argmax(axis=0)
    of_fullest = fullest, np.arange(buckets)
    is_other = (counts != counts[of_fullest]) | (digests != digests[of_fullest])
    differs = ((counts > 0) & is_other).any(axis=0)
    for cluster, runs in chunk.runs.items():
        for index in np.flatnonzero(differs[_buckets_of(chunk, runs) - base]):
            start, count = int(runs.starts[index]), int(runs.counts[index])
            ledger, entry = int(runs.ledgers[index]), int(runs.entries[index])
            yield chunk.row(Tally.DIFFERS, cluster, start, count, ledger=ledger, entry=entry)


def _buckets_of(chunk: Chunk, runs: RunArrays) -> Longs:
    return (runs.starts + chunk.first) // BUCKET


def altered(entries: pa.Table) -> pa.Table:
    """Return the entries of ENTRIES, of one topic and origin ledger, whose content differs.

    The content in the origin is the right one; without it, that in the first of the other clusters.
    """
    rows: list[Row] = []
    columns = [entries[name].to_pylist() for name in ("cluster", "origin_entry", "ledger", "entry", "digest")]
    by_place: dict[int, list[tuple[str, int, int, int]]] = {}
    for cluster, place, *rest in zip(*columns, strict=True):
        by_place.setdefault(place, []).append((cluster, *rest))
    for place, copies in sorted(by_place.items()):
        if len({digest for *_, digest in copies}) > 1:
            origin = entries["origin"][0].as_py()
            right = min(copies, key=lambda copy: (copy[0] != origin, copy))
            rows += [_altered(entries, place, copy, right[0]) for copy in sorted(copies) if copy[3] != right[3]]
    return pa.Table.from_pylist(rows, FINDINGS)


def _altered(entries: pa.Table, place: int, copy: tuple[str, int, int, int], other: str) -> Row:
    same = {name: entries[name][0].as_py() for name in ("topic", "origin", "origin_ledger")}
    cluster, ledger, entry, _ = copy
    return {
        **same,
        "kind": Kind.ALTERED.value,
        "cluster": cluster,
        "origin_entry": place,
        "count": 1,
        "ledger": ledger,
        "entry": entry,
        "other": other,
    }
