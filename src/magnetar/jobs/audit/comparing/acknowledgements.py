"""Comparison of the acknowledgement state of a subscription in several clusters, by origin positions. Pure."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.jobs.audit.comparing.chunks import Chunk, covered, stretches
from magnetar.jobs.audit.tables import FINDINGS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from magnetar.base.position import Position
    from magnetar.jobs.acknowledgements import Acknowledged
    from magnetar.jobs.audit.comparing.chunks import RunArrays

    Row = dict[str, Any]
    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]


def differences(runs: pa.Table, states: Mapping[str, Mapping[str, Acknowledged]]) -> pa.Table:
    """Return the findings about a chunk with ``runs``; ``states`` are by subscription and cluster.

    Compared are entries that at least two of the clusters have.
    """
    chunk = Chunk(runs)
    rows: list[Row] = []
    for subscription, by_cluster in states.items():
        present = {cluster: state for cluster, state in by_cluster.items() if cluster in chunk.runs}
        if len(present) > 1:
            done = {cluster: _acknowledged(chunk, cluster, state) for cluster, state in present.items()}
            found = chain(_of_entries(chunk, done), _of_batches(chunk, done, present))
            rows += [{**row, "subscription": subscription} for row in found]
    return pa.Table.from_pylist(rows, FINDINGS)


def _acknowledged(chunk: Chunk, cluster: str, state: Acknowledged) -> Mask:
    """Return which entries of the chunk are acknowledged in a cluster."""
    runs = chunk.runs[cluster]
    starts, counts = _through_mark(runs, state.mark_delete)
    done = covered(chunk.size, starts, counts)
    for ledger in np.intersect1d(runs.ledgers, state.ledgers):
        of_runs, of_state = runs.ledgers == ledger, state.ledgers == ledger
        starts, counts = _overlaps(
            runs.starts[of_runs],
            runs.entries[of_runs],
            runs.counts[of_runs],
            state.firsts[of_state],
            state.lasts[of_state],
        )
        done += covered(chunk.size, starts, counts)
    return done > 0


def _through_mark(runs: RunArrays, mark: Position) -> tuple[Longs, Longs]:
    """Return the parts of runs up to the mark-delete position: starts in the chunk, and counts."""
    inside = np.where(
        runs.ledgers == mark.ledger_id,
        np.clip(mark.entry_id + 1 - runs.entries, 0, runs.counts),
        np.where(runs.ledgers < mark.ledger_id, runs.counts, 0),
    )
    return runs.starts[inside > 0], inside[inside > 0]


def _overlaps(starts: Longs, entries: Longs, counts: Longs, firsts: Longs, lasts: Longs) -> tuple[Longs, Longs]:
    """Return the parts of runs of one ledger that lie in ranges, ascending and disjoint: starts, and counts."""
    begin = np.searchsorted(lasts, entries, side="left")
    stop = np.searchsorted(firsts, entries + counts, side="left")
    hits = np.maximum(stop - begin, 0)
    of_run = np.repeat(np.arange(len(starts)), hits)
    of_range = np.arange(hits.sum()) - np.repeat(np.cumsum(hits) - hits, hits) + begin[of_run]
    low = np.maximum(entries[of_run], firsts[of_range])
    high = np.minimum(entries[of_run] + counts[of_run] - 1, lasts[of_range])
    return starts[of_run] + low - entries[of_run], high - low + 1


def _of_entries(chunk: Chunk, done: Mapping[str, Mask]) -> Iterator[Row]:
    """Yield the entries that are acknowledged in one cluster and not in another one."""
    is_held = {cluster: chunk.copies[cluster] > 0 for cluster in done}
    anywhere = np.zeros(chunk.size, np.bool_)
    for cluster, mask in done.items():
        anywhere |= mask & is_held[cluster]
    for cluster, mask in done.items():
        lacking = anywhere & is_held[cluster] & ~mask
        if lacking.any():
            for start, stop, others in _by_others(lacking, {other: done[other] & is_held[other] for other in done}):
                yield chunk.row(Kind.UNACKNOWLEDGED, cluster, start, stop - start, other=others)


def _by_others(lacking: Mask, done: Mapping[str, Mask]) -> Iterator[tuple[int, int, str]]:
    """Yield the stretches of ``lacking`` with the names of the clusters that have acknowledged them."""
    pattern = np.zeros(len(lacking), np.int64)
    for bit, mask in enumerate(done.values()):
        pattern |= mask.astype(np.int64) << bit
    for start, stop in stretches(lacking):
        cuts = [start, *(np.flatnonzero(np.diff(pattern[start:stop])) + start + 1).tolist(), stop]
        for first, end in pairwise(cuts):
            names = [name for bit, name in enumerate(done) if pattern[first] >> bit & 1]
            yield first, end, ",".join(names)


def _of_batches(chunk: Chunk, done: Mapping[str, Mask], states: Mapping[str, Acknowledged]) -> Iterator[Row]:
    """Yield the batches of which different messages are acknowledged; not those that a cluster has acknowledged."""
    left = {cluster: dict(_remaining(chunk.runs[cluster], state)) for cluster, state in states.items()}
    for place in sorted({place for batches in left.values() for place in batches}):
        open_in = [cluster for cluster in done if chunk.copies[cluster][place] and not done[cluster][place]]
        bits = {cluster: left[cluster].get(place) for cluster in open_in}
        if len(set(bits.values())) > 1:
            for cluster in open_in:
                others = [other for other in open_in if _acknowledges_more(bits[other], bits[cluster])]
                if others:
                    yield chunk.row(Kind.PARTLY_ACKNOWLEDGED, cluster, place, 1, other=",".join(others))


def _acknowledges_more(bits: int | None, than: int | None) -> bool:
    """Return whether a message remains in ``than`` that does not in ``bits``; None: all remain."""
    return bits is not None and (than is None or bool(than & ~bits))


def _remaining(runs: RunArrays, state: Acknowledged) -> Iterator[tuple[int, int]]:
    """Yield the partly acknowledged batches in the chunk: index, and remaining bits."""
    if not state.remaining:
        return
    order = np.lexsort((runs.entries, runs.ledgers))
    keys = [(int(runs.ledgers[index]), int(runs.entries[index])) for index in order]
    for at, position in _run_before(keys, state.remaining):
        index = order[at]
        offset = position.entry_id - int(runs.entries[index])
        if position.ledger_id == runs.ledgers[index] and offset < runs.counts[index]:
            yield int(runs.starts[index]) + offset, state.remaining[position]


def _run_before(keys: Sequence[tuple[int, int]], positions: Iterable[Position]) -> Iterator[tuple[int, Position]]:
    """Yield each position with the index of the last key at or before it, if there is one; keys ascend."""
    at = -1
    for position in sorted(positions):
        while at + 1 < len(keys) and keys[at + 1] <= position:
            at += 1
        if at >= 0:
            yield at, position


def lasting(first: pa.Table, second: pa.Table) -> pa.Table:
    """Return the differences of ``first`` that ``second``, found later, still has."""
    before: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for row in first.to_pylist():
        before.setdefault(_subject(row), []).append(_span(row))
    rows = []
    for row in second.to_pylist():
        begin, end = _span(row)
        for start, stop in sorted(before.get(_subject(row), ())):
            low, high = max(start, begin), min(stop, end)
            if low < high:
                part = {"origin_entry": low, "count": high - low} if row["count"] is not None else {}
                rows.append({**row, **part})
    return pa.Table.from_pylist(rows, FINDINGS)


def _subject(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("kind", "topic", "subscription", "cluster", "origin", "origin_ledger"))


def _span(row: Row) -> tuple[int, int]:
    """Return the entries of a finding, without the last one; one that is not about entries counts as one."""
    begin = row["origin_entry"] or 0
    return begin, begin + (row["count"] or 1)
