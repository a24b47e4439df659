"""The place of an entry in one cluster's log."""

from __future__ import annotations

from typing import NamedTuple, Self

LONG_MAX = 2**63 - 1
"""Maximum id of a ledger or an entry."""

_SHOWN_MAX = 100
"""Maximum number of characters of a text in an error."""


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
        """Parse ``ledger:entry``, each from -1 to 2^63 - 1; raises ValueError with the text for anything else."""
        ledger, _, entry = text.partition(":")
        try:
            position = cls(int(ledger), int(entry))
        except ValueError:  # also for more digits than int() takes
            position = None
        if position is not None and text.isascii():
            ledger_id, entry_id = position
            if -1 <= ledger_id <= LONG_MAX and -1 <= entry_id <= LONG_MAX:
                return position
        message = f"not a position of the form ledger:entry: {text[:_SHOWN_MAX]!r}"
        raise ValueError(message)


EARLIEST = Position(-1, -1)
"""Before every entry; clients send it as ledger and entry 2^64-1 (-1 as signed)."""

LATEST = Position(LONG_MAX, LONG_MAX)
"""After every entry, as clients send it."""
