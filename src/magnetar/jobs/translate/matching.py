"""The correspondence of equal entries of both clusters. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.jobs.translate.tables import MATCHES, SOURCES_MAX, Match

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Longs = NDArray[np.int64]

_KINDS = (Match.MAPPED, Match.AMBIGUOUS, Match.MISSING_IN_TARGET, Match.MISSING_IN_SOURCE)
_NAMES = pa.array([kind.value for kind in _KINDS], pa.string())


def matches(entries: pa.Table) -> pa.Table:
    """Return rows of MATCHES for rows of IDENTITIES, which include all entries that are equal to one of them."""
    if not entries.num_rows:
        return MATCHES.empty_table()
    columns = {name: entries[name].to_numpy() for name in ("low", "high", "is_target", "ledger", "entry")}
    order = np.lexsort([columns[name] for name in ("entry", "ledger", "is_target", "high", "low")])
    low, high, is_target = (columns[name][order] for name in ("low", "high", "is_target"))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    targets = np.add.reduceat(is_target.astype(np.int64), starts)
    sources = np.diff(starts, append=len(order)) - targets
    rows = np.flatnonzero(is_target | (targets[group] == 0))
    of_row, is_held = group[rows], is_target[rows]
    first, listed = starts[of_row], np.where(sources[of_row] <= SOURCES_MAX, sources[of_row], 0)
    first, listed = np.where(is_held, first, rows), np.where(is_held, listed, 1)
    offsets, places = _lists(first, listed)
    found = entries.take(pa.array(order[rows]))
    of_source = [pa.array(columns[name][order][places]) for name in ("ledger", "entry")]
    return pa.table(
        [
            found["topic"],
            _NAMES.take(pa.array(_kinds(sources[of_row], targets[of_row]))),
            *(pa.array(found[name].to_numpy(), mask=~is_held) for name in ("ledger", "entry")),
            *(pa.ListArray.from_arrays(pa.array(offsets), values) for values in of_source),
            found["from_source"],
            *(found[name] for name in MATCHES.names[-4:]),
        ],
        schema=MATCHES,
    )


def _kinds(sources: Longs, targets: Longs) -> Longs:
    """Return the kinds of matches for the numbers of equal entries."""
    conditions = [(sources == 1) & (targets == 1), targets == 0, sources == 0]
    kinds = [_KINDS.index(kind) for kind in (Match.MAPPED, Match.MISSING_IN_TARGET, Match.MISSING_IN_SOURCE)]
    return np.select(conditions, kinds, _KINDS.index(Match.AMBIGUOUS))


def _lists(firsts: Longs, counts: Longs) -> tuple[NDArray[np.int32], Longs]:
    """Return the offsets and elements of lists of ``counts`` consecutive numbers from ``firsts`` on."""
    ends = np.cumsum(counts)
    elements = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + np.repeat(firsts, counts)
    return np.concatenate(([0], ends)).astype(np.int32), elements
