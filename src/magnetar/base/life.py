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
