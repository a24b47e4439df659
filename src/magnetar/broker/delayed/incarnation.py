"""Identity of the log that an index belongs to, which is stored in the list of ledgers and in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position

if TYPE_CHECKING:
    from magnetar.base.world import Clock
    from magnetar.ledger.managed_ledger import ManagedLedger

INCARNATION_PROPERTY = "magnetar.delayed"
"""Managed-ledger property of a topic with delayed entries: no entry up to this position is delayed.

The property includes the time of the first delayed entry, which distinguishes a topic from a later one with its name.
"""


class Incarnation:
    """Read the identity; there is none before the first delayed entry."""

    def __init__(self, ledger: ManagedLedger, clock: Clock) -> None:
        """Identity in the list of ledgers."""
        self._ledger = ledger
        self._clock = clock
        self.name = ledger.properties.get(INCARNATION_PROPERTY)
        """Identity; None if the topic never had a delayed entry."""

    @property
    def floor(self) -> Position:
        """Position up to which no entry was delayed."""
        assert self.name is not None
        return Position.parse(self.name.partition("@")[0])

    def begin(self) -> None:
        """Create an identity: only entries after the last one may be delayed."""
        self._set(self._ledger.last_confirmed_entry)

    def renew(self) -> None:
        """Change the identity, so that entries in the store are not assigned to this log."""
        self._set(self.floor)

    def _set(self, floor: Position) -> None:
        """Set an identity. If a crash loses it, the store is not used, and readers withhold entries that are early."""
        self.name = f"{floor}@{int(self._clock.now() * 1000)}"
        self._ledger.note_property(INCARNATION_PROPERTY, self.name)
