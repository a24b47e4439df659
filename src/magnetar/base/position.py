"""The place of an entry in one cluster's log."""

from __future__ import annotations

from typing import NamedTuple, Self

_LONG_MAX = 2**63 - 1


class Position(NamedTuple):
    """An entry's place in one cluster's log, totally ordered there and meaningless in another cluster.

    Ordered by ``(ledger_id, entry_id)``. ``entry_id`` is -1 for the place before a ledger's first entry.
    """

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        """Pulsar's notation, ``ledger:entry``."""
        return f"{self.ledger_id}:{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``ledger:entry``; raises ValueError, naming the text, for anything else."""
        ledger, _, entry = text.partition(":")
        try:
            return cls(int(ledger), int(entry))
        except ValueError:
            message = f"not a position of the form ledger:entry: {text!r}"
            raise ValueError(message) from None


EARLIEST = Position(-1, -1)
"""Before every entry; clients send it as ledger and entry 2^64-1 (-1 as signed)."""

LATEST = Position(_LONG_MAX, _LONG_MAX)
"""After every entry, as clients send it."""
