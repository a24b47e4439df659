"""Rows of the tables of a translation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.acknowledgements import Acknowledged
from magnetar.jobs.translate.matching import matches
from magnetar.jobs.translate.tables import IDENTITIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TOPIC = "persistent://public/default/orders"
SOURCE, TARGET = 3, 7
"""Ledgers in the clusters."""

Row = tuple[bool, int, int, bool]


def source(*contents: int, first: int = 0) -> list[Row]:
    """Return entries of the source with these contents, in order."""
    return [(False, first + number, content, True) for number, content in enumerate(contents)]


def target(*contents: int, first: int = 0, from_source: bool = True) -> list[Row]:
    """Return entries of the target with these contents, in order."""
    return [(True, first + number, content, from_source) for number, content in enumerate(contents)]


def identities(*rows: Row, messages: int = 4) -> pa.Table:
    """Return rows of IDENTITIES."""
    return pa.Table.from_pylist(
        [
            {
                "topic": TOPIC,
                "is_target": is_target,
                "ledger": TARGET if is_target else SOURCE,
                "entry": entry,
                "high": -content,
                "low": content % 3,
                "from_source": from_source,
                "producer_name": "p",
                "sequence_id": content,
                "publish_time": 1_700_000_000_000 + content,
                "messages": messages,
            }
            for is_target, entry, content, from_source in rows
        ],
        IDENTITIES,
    )


def matched(*rows: Row) -> pa.Table:
    """Return the matches in the order of the target."""
    order = [("ledger", "ascending"), ("entry", "ascending")]
    return matches(identities(*rows)).sort_by([(name, kind) for name, kind in order])


def state(
    mark: int = -1,
    ranges: Sequence[tuple[int, int]] = (),
    batches: Mapping[int, int] | None = None,
    ledger: int = SOURCE,
) -> Acknowledged:
    """Return a state in one ledger."""
    firsts, lasts = ([each[side] for each in ranges] for side in (0, 1))
    return Acknowledged(
        Position(ledger, mark) if mark >= 0 else EARLIEST,
        np.full(len(ranges), ledger, np.int64),
        np.array(firsts, np.int64),
        np.array(lasts, np.int64),
        {Position(ledger, entry): bits for entry, bits in (batches or {}).items()},
    )


def places(rows: Iterable[Mapping[str, int]]) -> list[tuple[int, int]]:
    """Return first and last entries."""
    return [(row["first"], row["last"]) for row in rows]
