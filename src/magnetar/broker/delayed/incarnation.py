"""Which log the index of a topic was made from: a name that is written to the list of ledgers and to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position

if TYPE_CHECKING:
    from magnetar.base.world import Clock
    from magnetar.ledger.managed_ledger import ManagedLedger

INCARNATION_PROPERTY = "magnetar.delayed"
"""Managed-ledger property of a topic that has had a delayed entry: no entry up to this position was one.

With the time of the first one behind it, which tells a topic from a later one of its name.
"""


class Incarnation:
    """The name; there is none before the first delayed entry."""

    def __init__(self, ledger: ManagedLedger, clock: Clock) -> None:
        """As the list of ledgers has it."""
        self._ledger = ledger
        self._clock = clock
        self.name = ledger.properties.get(INCARNATION_PROPERTY)
        """None: the topic never had a delayed entry."""
        self._is_recorded = self.name is not None
        """Whether the list of ledgers has it."""

    @property
    def floor(self) -> Position:
        """No entry up to here was delayed."""
        assert self.name is not None
        return Position.parse(self.name.partition("@")[0])

    def begin(self) -> None:
        """Only entries behind the last one may be delayed."""
        self._set(self._ledger.last_confirmed_entry)

    def renew(self) -> None:
        """Take another name, so that what the store has is never taken for entries of this log. Raises StorageError."""
        self._set(self.floor)
        self._is_recorded = False
        self.record()

    def record(self) -> None:
        """Make the name durable, if that has not been done. Raises StorageError."""
        if not self._is_recorded:
            assert self.name is not None
            self._ledger.set_property(INCARNATION_PROPERTY, self.name)
            self._is_recorded = True

    def _set(self, floor: Position) -> None:
        self.name = f"{floor}@{int(self._clock.now() * 1000)}"
