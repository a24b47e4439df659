"""A life of a cluster: from an empty data directory to its loss. Positions of one life have no meaning in another one.

A cluster that lost its data directory starts a new life under its old name, and other clusters still know entries of
the old life by their positions. Positions of the two lives cannot be confused if the ledger ids of the new life exceed
those that the other clusters know (ADR 13).
"""

from __future__ import annotations

from typing import NamedTuple, Self


class Life(NamedTuple):
    """A life, as other clusters know it; written ``identity@first ledger id``."""

    identity: str
    """Unique to each life."""
    first_ledger_id: int
    """The lowest ledger id of the life, inclusive."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the written form; raises ValueError."""
        identity, _, first = text.rpartition("@")
        if not identity:
            message = f"{text!r} names no life"
            raise ValueError(message)
        return cls(identity, int(first))

    def __str__(self) -> str:
        """Return the written form."""
        return f"{self.identity}@{self.first_ledger_id}"


def first_ledger_id(now: float) -> int:
    """Return the first ledger id of a new data directory created at ``now``, in seconds since the epoch.

    Other clusters identify entries by their positions in this cluster, even after this cluster has lost its disk and
    started again under its name. They would take a new entry at an old position for the entry that they already have. A
    cluster creates at most one ledger per millisecond, so the ids of a later life are greater than those of earlier
    ones.
    """
    return int(now * 1000)
