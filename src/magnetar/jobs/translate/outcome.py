"""The translated state of one subscription, from its verdicts. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.translate.tables import Verdict
from magnetar.wire.entries.ack_set import int_to_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNDECIDED_SHOWN_MAX = 1_000
"""Undecided entries of a subscription that are named in the report."""


class Partial(NamedTuple):
    """A partly acknowledged batch."""

    remaining: int
    """Bits of the unacknowledged messages."""
    messages: int


@dataclass(slots=True, kw_only=True)
class Translation:
    """The state of a subscription, in positions of the target."""

    topic: str
    subscription: str
    mark_delete: Position = EARLIEST
    """All messages up to and including it are acknowledged; EARLIEST: the oldest one is not."""
    ranges: Sequence[tuple[int, int, int]] = ()
    """Entries after it that are acknowledged: ledger, first and last entry, inclusive."""
    batches: Mapping[Position, Partial] = field(default_factory=dict)
    """Partly acknowledged batches."""
    unacknowledged: int = 0
    """Number of entries that are not acknowledged as a whole."""
    undecided: int = 0
    undecided_shown: Sequence[Position] = ()
    ahead: int = 0
    """Number of entries that the target has acknowledged, and the source has not."""
    first_ahead: Position | None = None
    only_in_source: int = 0
    """Number of acknowledged entries that the target does not have."""
    applied: bool | None = None
    """Whether the target has the state; None if this was not requested."""
    refusal: str = ""
    """Why not."""

    def to_json(self) -> dict[str, Any]:
        """Return the translation as JSON."""
        found = {
            "topic": self.topic,
            "subscription": self.subscription,
            "markDeletePosition": str(self.mark_delete),
            "ranges": [list(each) for each in self.ranges],
            "batches": {str(place): int_to_words(batch.remaining) for place, batch in self.batches.items()},
            "unacknowledged": self.unacknowledged,
            "undecided": self.undecided,
            "undecidedPositions": [str(place) for place in self.undecided_shown],
            "ahead": self.ahead,
            "onlyInSource": self.only_in_source,
        }
        return found if self.applied is None else {**found, "applied": self.applied, "refusal": self.refusal or None}


def translation_of(topic: str, subscription: str, verdicts: pa.Table) -> Translation:
    """Return the state that rows of VERDICTS about one subscription state together."""
    found = Translation(topic=topic, subscription=subscription)
    runs = _sorted(_of(verdicts, Verdict.ACKNOWLEDGED))
    rest = _of(verdicts, Verdict.UNACKNOWLEDGED)
    found.mark_delete, found.ranges = _merged(runs, _first(rest))
    found.unacknowledged = _count(rest)
    found.batches = {
        Position(row["ledger"], row["first"]): Partial(int.from_bytes(row["remaining"], "little"), row["count"])
        for row in _sorted(_of(verdicts, Verdict.PARTLY)).to_pylist()
    }
    undecided = _of(verdicts, Verdict.UNDECIDED)
    found.undecided = _count(undecided)
    named = _sorted(undecided.filter(undecided["ledger"].is_valid())).slice(0, UNDECIDED_SHOWN_MAX)
    found.undecided_shown = [Position(row["ledger"], row["first"]) for row in named.to_pylist()]
    ahead = _of(verdicts, Verdict.AHEAD)
    found.ahead, found.first_ahead = _count(ahead), _first(ahead)
    found.only_in_source = _count(_of(verdicts, Verdict.ONLY_IN_SOURCE))
    return found


def _of(verdicts: pa.Table, verdict: Verdict) -> pa.Table:
    return verdicts.filter(pc.equal(verdicts["verdict"], verdict.value))


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by([("ledger", "ascending"), ("first", "ascending")])


def _count(rows: pa.Table) -> int:
    return int(pc.sum(rows["count"]).as_py() or 0)


def _first(rows: pa.Table) -> Position | None:
    places = zip(rows["ledger"].to_pylist(), rows["first"].to_pylist(), strict=True)
    return min((Position(ledger, entry) for ledger, entry in places), default=None)


def _merged(runs: pa.Table, first_open: Position | None) -> tuple[Position, list[tuple[int, int, int]]]:
    """Return the mark-delete position, and the ranges after it, of sorted runs; those that touch become one.

    ``first_open`` is the first entry that is not acknowledged; None: all are.
    """
    if not runs.num_rows:
        return EARLIEST, []
    ledgers, firsts, lasts = (runs[name].to_numpy() for name in ("ledger", "first", "last"))
    before = len(ledgers)
    if first_open is not None:
        ledger, entry = first_open
        before = int(np.count_nonzero((ledgers < ledger) | ((ledgers == ledger) & (firsts < entry))))
    mark = Position(int(ledgers[before - 1]), int(lasts[before - 1])) if before else EARLIEST
    ledgers, firsts, lasts = ledgers[before:], firsts[before:], lasts[before:]
    is_first = np.ones(len(ledgers), np.bool_)
    is_first[1:] = (ledgers[1:] != ledgers[:-1]) | (firsts[1:] != lasts[:-1] + 1)
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(ledgers))[: len(starts)] - 1
    return mark, list(zip(ledgers[starts].tolist(), firsts[starts].tolist(), lasts[ends].tolist(), strict=True))
