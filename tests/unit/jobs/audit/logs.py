"""Logs of a topic in several clusters, entry by entry, and the runs that a task would read of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from magnetar.base.position import EARLIEST, Position
from magnetar.jobs.audit.comparing.windows import Held, Log
from magnetar.jobs.audit.runs import Read, runs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOPIC = "persistent://public/default/orders"
LEDGER_ENTRIES = 50_000


@dataclass(frozen=True)
class Entry:
    origin: str
    place: Position
    content: int
    targets: str = ""
    link_start: bool = False


def local(ledger: int, index: int) -> Position:
    """Return the position of the ``index``-th entry of a log whose first ledger is ``ledger``."""
    return Position(ledger + index // LEDGER_ENTRIES, index % LEDGER_ENTRIES)


def published(cluster: str, ledger: int, count: int, first: int = 0) -> list[Entry]:
    """Return entries that a cluster published, at the places that they have in a log of their own."""
    return [Entry(cluster, local(ledger, index), 7 * index + 1) for index in range(first, first + count)]


def read_of(cluster: str, ledger: int, log: Sequence[Entry]) -> Read:
    """Return what a task reads of a log that begins with ``ledger``."""
    places = [local(ledger, index) for index in range(len(log))]
    names = sorted({entry.origin for entry in log} | {entry.targets for entry in log})

    def longs(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, np.int64)

    return Read(
        TOPIC,
        cluster,
        names,
        longs([names.index(entry.origin) for entry in log]),
        longs([entry.place.ledger_id for entry in log]),
        longs([entry.place.entry_id for entry in log]),
        longs([place.ledger_id for place in places]),
        longs([place.entry_id for place in places]),
        longs([entry.content for entry in log]),
        longs([names.index(entry.targets) for entry in log]),
        np.array([entry.link_start for entry in log], np.bool_),
    )


def runs_of_logs(logs: Mapping[str, Sequence[Entry]], ledgers: Mapping[str, int]) -> pa.Table:
    """Return the runs of the logs of all clusters."""
    return pa.Table.from_batches([runs_of(read_of(name, ledgers[name], log)) for name, log in logs.items() if log])


def described(
    logs: Mapping[str, Sequence[Entry]], ledgers: Mapping[str, int], delivered: Mapping[tuple[str, str], Position]
) -> dict[str, Log]:
    """Return the logs as the admin API describes them; nothing was trimmed, and all clusters have links."""
    return {
        name: Log(
            exists=True,
            end=local(ledgers[name], len(log) - 1) if log else EARLIEST,
            head=Position(ledgers[name], 0),
            trimmed={},
            delivered={other: delivered.get((name, other), EARLIEST) for other in logs if other != name},
        )
        for name, log in logs.items()
    }


def held_of(origin: str, logs: Mapping[str, Sequence[Entry]]) -> dict[str, Held]:
    """Return the oldest and the newest entry of an origin in each cluster that has one."""
    places = {name: [entry.place for entry in log if entry.origin == origin] for name, log in logs.items()}
    return {name: Held(min(found), max(found)) for name, found in places.items() if found}
