"""Tombstones of deleted replicated subscriptions: their epochs, so that no late state creates them again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import structlog

from magnetar.base.errors import ManagedLedgerFencedError
from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch
from magnetar.geo.progress.state import SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.store import OnDurable, Put

log = structlog.get_logger(__name__)

TOMBSTONES_PROPERTY = "magnetar.tombstones"
"""Managed-ledger property: a ``_Tombstone`` of each deleted replicated subscription, as JSON, the oldest first."""

TOMBSTONES_MAX = 1_000
"""Maximum number of tombstones of a topic. Beyond it, the oldest is evicted: a cluster that has been away since before
that deletion then creates the subscription again, with its acknowledgements. No message is skipped."""


class _Tombstone(NamedTuple):
    """Epoch of a deleted subscription, and the end of this log when the deletion was made or received here."""

    counter: int
    cluster: str
    ledger_id: int = EARLIEST.ledger_id
    entry_id: int = EARLIEST.entry_id

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.counter, self.cluster)


class Tombstones:
    """The tombstones of one topic, stored with its list of ledgers."""

    def __init__(self, ledger: ManagedLedger, limit_hits: LimitHits) -> None:
        """Read the stored tombstones."""
        self._ledger = ledger
        self._limit_hits = limit_hits
        stored = json.loads(ledger.properties.get(TOMBSTONES_PROPERTY, "{}"))
        self._tombstones = {name: _Tombstone(*each) for name, each in stored.items()}

    def __len__(self) -> int:
        """Return the number of tombstones."""
        return len(self._tombstones)

    def get(self, name: str) -> SubscriptionProgress | None:
        """Return the tombstone of a subscription; None if it was not deleted, or if the tombstone was evicted."""
        found = self._tombstones.get(name)
        return None if found is None else SubscriptionProgress(name, epoch=found.epoch, deleted=True)

    def states(self) -> list[SubscriptionProgress]:
        """Return all tombstones."""
        return [SubscriptionProgress(name, epoch=each.epoch, deleted=True) for name, each in self._tombstones.items()]

    def covers(self, name: str, position: Position) -> bool:
        """Return whether an update up to ``position`` of this log may be older than the subscription's deletion."""
        found = self._tombstones.get(name)
        return found is not None and position <= Position(found.ledger_id, found.entry_id)

    def epoch_for_new(self, name: str) -> Epoch:
        """Return the epoch of a subscription that is created here now."""
        found = self._tombstones.get(name)
        return FIRST_EPOCH if found is None else found.epoch.created_after()

    def add(
        self,
        tombstone: SubscriptionProgress,
        along_with: Sequence[Put] = (),
        on_durable: OnDurable = lambda _: None,
    ) -> None:
        """Store a tombstone, which replaces an older one of the same subscription.

        It is written in one transaction with ``along_with``; if it cannot be stored, the topic is fenced. Raises
        ManagedLedgerFencedError, and changes nothing, if the topic is fenced already.
        """
        tombstones = {name: each for name, each in self._tombstones.items() if name != tombstone.name}
        tombstones[tombstone.name] = _Tombstone(*tombstone.epoch, *self._ledger.last_confirmed_entry)
        forgotten = next(iter(tombstones)) if len(tombstones) > TOMBSTONES_MAX else None
        if forgotten is not None:
            del tombstones[forgotten]
        before, self._tombstones = self._tombstones, tombstones
        try:
            self._ledger.set_property(TOMBSTONES_PROPERTY, json.dumps(tombstones), along_with, on_durable)
        except ManagedLedgerFencedError:
            self._tombstones = before
            raise
        if forgotten is not None:
            self._limit_hits.hit(Limit.TOMBSTONES)
            log.warning("tombstone_forgotten", topic=self._ledger.name, subscription=forgotten)
