"""The acknowledgement state of entries of the target, from that of their equals in the source. Pure.

A message counts as acknowledged if it is acknowledged in all equal entries of the source. So nothing is guessed: if
they differ, the message is not acknowledged in any of the equal entries of the target.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from magnetar.base.position import Position
from magnetar.jobs.translate.tables import VERDICTS, Match, Verdict
from magnetar.wire.entries.ack_set import all_remaining, words_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from magnetar.jobs.acknowledgements import Acknowledged

    Longs = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Row = dict[str, Any]

NAMED_MAX = 1_000
"""Undecided entries of a batch of rows that are named; the others are counted."""

_WORD_BYTES = 8


class Places(NamedTuple):
    """Positions of entries in one cluster."""

    ledgers: Longs
    entries: Longs

    def at(self, index: int) -> Position:
        """Return one of them."""
        return Position(int(self.ledgers[index]), int(self.entries[index]))


class Done(NamedTuple):
    """What is acknowledged of entries."""

    whole: Mask
    """Whether all messages of the entry are acknowledged."""
    remaining: Mapping[int, int]
    """By index of a partly acknowledged entry, the bits of its unacknowledged messages."""


def done_in(state: Acknowledged, places: Places) -> Done:
    """Return what a subscription has acknowledged of entries of its cluster."""
    ledgers, entries = places
    mark = state.mark_delete
    whole = (ledgers < mark.ledger_id) | ((ledgers == mark.ledger_id) & (entries <= mark.entry_id))
    partial = np.array(sorted(state.remaining), np.int64).reshape(-1, 2)
    remaining: dict[int, int] = {}
    for ledger in np.intersect1d(ledgers, np.concatenate((state.ledgers, partial[:, 0]))):
        rows = np.flatnonzero(ledgers == ledger)
        of_state = state.ledgers == ledger
        before = np.searchsorted(state.firsts[of_state], entries[rows], side="right") - 1
        lasts = np.append(state.lasts[of_state], -1)  # for an entry before all ranges, whose index is -1
        whole[rows] |= entries[rows] <= lasts[before]
        for row in rows[np.isin(entries[rows], partial[partial[:, 0] == ledger, 1])].tolist():
            if not whole[row]:
                remaining[row] = state.remaining[places.at(row)]
    return Done(whole, remaining)


def verdicts(rows: pa.Table, subscription: str, source: Acknowledged, target: Acknowledged | None = None) -> pa.Table:
    """Return rows of VERDICTS for rows of MATCHES of one topic, in the order of the target.

    ``source`` and ``target`` are the states of the subscription; ``target`` is None if it does not exist.
    """
    is_held = rows["ledger"].is_valid().to_numpy()
    held, absent = rows.filter(is_held), rows.filter(~is_held)
    places = Places(held["ledger"].to_numpy(), held["entry"].to_numpy())
    done, undecided = _translated(held, source)
    single = [*_of_entries(places, done, held["messages"].to_numpy()), *_of_undecided(places, undecided)]
    if target is not None:
        single += _of_ahead(places, _ahead(done, done_in(target, places), held["messages"].to_numpy()))
    if count := int(done_in(source, _sources(absent)).whole.sum()):
        single.append({"verdict": Verdict.ONLY_IN_SOURCE.value, "count": count})
    found = pa.concat_tables([_runs(places, done.whole), pa.Table.from_pylist(single, VERDICTS)])
    for name, value in (("topic", rows["topic"][0].as_py() if rows.num_rows else None), ("subscription", subscription)):
        found = found.set_column(VERDICTS.names.index(name), name, pa.repeat(value, found.num_rows).cast(pa.string()))
    return found


def _of_entries(places: Places, done: Done, messages: NDArray[np.int32]) -> Iterator[Row]:
    for index, bits in sorted(done.remaining.items()):
        size = _WORD_BYTES * words_for(int(messages[index]))
        yield {
            **_row(Verdict.PARTLY, places.at(index), int(messages[index])),
            "remaining": bits.to_bytes(size, "little"),
        }
    rest = np.flatnonzero(~done.whole)
    if len(rest):
        yield _row(Verdict.UNACKNOWLEDGED, places.at(int(rest[0])), len(rest))


def _of_undecided(places: Places, undecided: Mask) -> Iterator[Row]:
    indexes = np.flatnonzero(undecided).tolist()
    for index in indexes[:NAMED_MAX]:
        yield _row(Verdict.UNDECIDED, places.at(index), 1)
    if len(indexes) > NAMED_MAX:
        yield {"verdict": Verdict.UNDECIDED.value, "count": len(indexes) - NAMED_MAX}


def _of_ahead(places: Places, ahead: Mask) -> Iterator[Row]:
    if ahead.any():
        yield _row(Verdict.AHEAD, places.at(int(ahead.argmax())), int(ahead.sum()))


def _row(verdict: Verdict, place: Position, count: int) -> Row:
    ledger, entry = place
    return {"verdict": verdict.value, "ledger": ledger, "first": entry, "last": entry, "count": count}


def _sources(rows: pa.Table) -> Places:
    """Return the positions in the lists of sources, one after the other."""
    lists = (rows[name].combine_chunks() for name in ("source_ledgers", "source_entries"))
    ledgers, entries = (each.flatten().to_numpy() for each in lists)
    return Places(ledgers, entries)


def _translated(rows: pa.Table, state: Acknowledged) -> tuple[Done, Mask]:
    """Return what is acknowledged of the entries of the target, and which are undecided."""
    done = done_in(state, _sources(rows))
    counts = rows["source_ledgers"].combine_chunks().value_lengths().to_numpy()
    ends = np.cumsum(counts)
    starts = ends - counts
    totals = np.concatenate(([0], np.cumsum(done.whole)))
    whole = totals[ends] - totals[starts]
    kinds = np.array(rows["match"].to_pylist(), object)
    # Of too many equal entries, none is listed.
    undecided = ((whole > 0) & (whole < counts)) | ((counts == 0) & (kinds == Match.AMBIGUOUS.value))
    remaining = {}
    for index in np.unique(np.searchsorted(ends, sorted(done.remaining), side="right")).tolist():
        equals = range(starts[index], ends[index])
        bits = [0 if done.whole[each] else done.remaining.get(each) for each in equals]
        undecided[index] = len(set(bits)) > 1
        known = [each for each in bits if each is not None]
        if len(known) == len(bits):
            remaining[index] = reduce(int.__or__, known)
    is_whole = ((counts > 0) & (whole == counts)) | (kinds == Match.DELETED_IN_SOURCE.value)
    return Done(is_whole, remaining), undecided


def _ahead(done: Done, existing: Done, messages: NDArray[np.int32]) -> Mask:
    """Return in which entries messages are acknowledged in the target, and not in the source."""
    ahead = existing.whole & ~done.whole
    for index, bits in existing.remaining.items():
        left = 0 if done.whole[index] else done.remaining.get(index, all_remaining(int(messages[index])))
        ahead[index] = bool(left & ~bits)
    return ahead


def _runs(places: Places, whole: Mask) -> pa.Table:
    """Return the acknowledged runs of consecutive entries, without the topic and the subscription."""
    rows = np.flatnonzero(whole)
    ledgers, entries = places.ledgers[rows], places.entries[rows]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (ledgers[1:] != ledgers[:-1]) | (entries[1:] != entries[:-1] + 1)
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(rows))
    nothing = pa.nulls(len(starts), pa.string())
    columns = [
        *(nothing, nothing, pa.repeat(Verdict.ACKNOWLEDGED.value, len(starts)).cast(pa.string())),
        *map(pa.array, (ledgers[starts], entries[starts], entries[starts] + counts - 1, counts)),
        pa.nulls(len(starts), pa.binary()),
    ]
    return pa.table(columns, schema=VERDICTS)
