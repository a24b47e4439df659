"""The acknowledgement state of subscriptions, as clusters export it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from magnetar.base.position import EARLIEST, LONG_MAX, Position
from magnetar.wire.entries.ack_set import words_to_int

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from magnetar.admin.client import AdminClient
    from magnetar.base.names import TopicName

    Longs = NDArray[np.int64]
    States = dict[str, dict[str, "Acknowledged"]]

STATES: Final = pa.schema(
    [
        ("subscription", pa.string()),
        ("cluster", pa.string()),
        ("ledger", pa.int64()),
        ("first", pa.int64()),  # null: ``last`` is the mark-delete position
        ("last", pa.int64()),
        ("remaining", pa.binary()),  # of a partly acknowledged batch: the bits of unacknowledged messages; else null
    ]
)
"""The acknowledgement states of a topic."""

_RANGE: Final = re.compile(r"[(\[](-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")
"""A range of Pulsar's notation, ``(5:1..5:4]``."""


def _none() -> Longs:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The acknowledgement state of a subscription, in positions of its cluster."""

    mark_delete: Position = EARLIEST
    ledgers: Longs = field(default_factory=_none)
    firsts: Longs = field(default_factory=_none)
    """First entries of the ranges that are acknowledged after ``mark_delete``, ascending with ``ledgers``."""
    lasts: Longs = field(default_factory=_none)
    """Last entries, inclusive."""
    remaining: Mapping[Position, int] = field(default_factory=dict)
    """Bits of the messages of partly acknowledged batches that are not acknowledged."""


class _Row(NamedTuple):
    ledger: int
    first: int | None
    last: int
    remaining: bytes | None = None


def exported(client: AdminClient, topic: TopicName, subscription: str) -> pa.Table:
    """Return the state of a subscription of a Magnetar cluster, all pages of it, as the last columns of STATES."""
    rows: list[_Row] = []
    after = mark = EARLIEST
    while True:
        page = client.subscriptions.acknowledgements(topic, subscription, after)
        mark = max(mark, Position.parse(page["markDeletePosition"]))
        rows += [_Row(ledger, first, last) for ledger, first, last in page["ranges"]]
        for text, words in page["batches"].items():
            position, remaining = Position.parse(text), words_to_int(words)
            bits = remaining.to_bytes(8 * len(words), "little")
            rows.append(_Row(position.ledger_id, position.entry_id, position.entry_id, bits))
        if page.get("next") is None:
            break
        after = Position.parse(page["next"])
    return _table(mark, rows)


def in_internal_stats(cursor: Mapping[str, Any], ledgers: Sequence[int]) -> pa.Table:
    """Return the state of a cursor in the internal stats of Apache Pulsar, as the last columns of STATES.

    ``ledgers`` are the ids of the topic's ledgers. Partly acknowledged batches are not in the stats.
    """
    mark = Position.parse(cursor["markDeletePosition"])
    rows: list[_Row] = []
    for form in _RANGE.finditer(cursor["individuallyDeletedMessages"]):
        lower, upper = Position(int(form[1]), int(form[2])), Position(int(form[3]), int(form[4]))
        # A range excludes its lower end, and may reach over several ledgers.
        for ledger in sorted({lower.ledger_id, upper.ledger_id, *ledgers}):
            if lower.ledger_id <= ledger <= upper.ledger_id:
                first = lower.entry_id + 1 if ledger == lower.ledger_id else 0
                last = upper.entry_id if ledger == upper.ledger_id else LONG_MAX
                if first <= last:
                    rows.append(_Row(ledger, first, last))
    return _table(mark, rows)


def _table(mark: Position, rows: Sequence[_Row]) -> pa.Table:
    every = [_Row(mark.ledger_id, None, mark.entry_id), *rows]
    types = [STATES.field(name).type for name in _Row._fields]
    arrays = [pa.array(values, kind) for values, kind in zip(zip(*every, strict=True), types, strict=True)]
    return pa.table(arrays, list(_Row._fields))


def named(state: pa.Table, subscription: str, cluster: str) -> pa.Table:
    """Return the state of a subscription as rows of STATES."""
    names = [pa.repeat(value, state.num_rows).cast(pa.string()) for value in (subscription, cluster)]
    return pa.table([*names, *(state[name] for name in _Row._fields)], schema=STATES)


def write_states(path: Path, states: pa.Table) -> None:
    """Write STATES to a file for ``stored_states``."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, STATES) as writer:
        writer.write_table(states)


@lru_cache(maxsize=2)
def stored_states(path: str) -> States:
    """Return the states in a file by subscription and cluster; the tasks of one process share them."""
    with pa.memory_map(path) as source:
        return states_in(pa.ipc.open_file(source).read_all())


def states_in(table: pa.Table) -> States:
    """Return the states in STATES by subscription and cluster."""
    subscriptions, clusters = table["subscription"].to_pylist(), table["cluster"].to_pylist()
    places: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(subscriptions, clusters, strict=True)):
        places.setdefault(key, []).append(row)
    found: States = {}
    for (subscription, cluster), rows in places.items():
        found.setdefault(subscription, {})[cluster] = acknowledged(table.take(pa.array(rows)))
    return found


def acknowledged(rows: pa.Table) -> Acknowledged:
    """Return the state of one subscription in one cluster, from its rows of STATES."""
    is_mark, is_batch = rows["first"].is_null().to_numpy(), rows["remaining"].is_valid().to_numpy()
    ledgers, lasts = rows["ledger"].to_numpy(), rows["last"].to_numpy()
    (mark,) = np.flatnonzero(is_mark)
    ranges = np.flatnonzero(~is_mark & ~is_batch)
    remaining = {
        Position(int(ledgers[row]), int(lasts[row])): int.from_bytes(rows["remaining"][int(row)].as_py(), "little")
        for row in np.flatnonzero(is_batch)
    }
    return Acknowledged(
        Position(int(ledgers[mark]), int(lasts[mark])),
        ledgers[ranges],
        rows["first"].fill_null(0).to_numpy()[ranges],
        lasts[ranges],
        remaining,
    )
