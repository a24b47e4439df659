"""A digest of the acknowledgement state of a subscription that clusters can compare. Pure.

It covers the unacknowledged entries of the log, by the cluster that published them and their positions there, and the
unacknowledged messages of partly acknowledged batches. Local positions, the order of entries of different clusters, and
trimmed ledgers do not matter.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from magnetar.base.position import Position

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins.index import OriginIndex

    _Run = tuple[int, int, int]
    """A run of entries at their origin: ledger, first and last entry."""

_STEP_ENTRIES: Final = 1000
"""Entries of the log that a step handles; some milliseconds of work if each of them is a range of its own."""

_DIGEST_BYTES: Final = 16


def digest_steps(index: OriginIndex, state: CursorState, first: Position, last: Position) -> Generator[None, None, str]:
    """Return the digest of a state about the entries ``first..last``, both inclusive, in steps.

    If the state changes between the steps, it may be the digest of no state at all.
    """
    runs: dict[str, list[_Run]] = {}
    position = first
    while ranges := state.undeleted(position, last, _STEP_ENTRIES):
        for cluster, found in index.origins_of(ranges):
            runs.setdefault(cluster, []).extend(found)
        end = ranges[-1].last
        position = Position(end.ledger_id, end.entry_id + 1)
        yield
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for cluster in sorted(runs):
        for number, (ledger_id, first_id, last_id) in enumerate(_joined(sorted(runs[cluster]))):
            digest.update(f"{cluster} {ledger_id}:{first_id}-{last_id}\n".encode())
            if number % _STEP_ENTRIES == 0:
                yield
    partial = [(batch, left) for batch, left in state.partial_batches() if first <= batch <= last]
    for cluster, place, left in sorted(index.partial_claims(partial)):
        digest.update(f"{cluster} {place} {left:x}\n".encode())
    return digest.hexdigest()


def _joined(runs: Iterable[_Run]) -> Iterator[_Run]:
    """Join consecutive runs; they ascend."""
    open_run: _Run | None = None
    for run in runs:
        if open_run is None:
            open_run = run
        elif open_run[0] == run[0] and open_run[2] + 1 == run[1]:
            open_run = run[0], open_run[1], run[2]
        else:
            yield open_run
            open_run = run
    if open_run is not None:
        yield open_run
