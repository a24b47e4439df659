"""What remains of replicated subscriptions that were deleted: their epochs, so that no late state brings them back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import structlog

from magnetar.base.limits import Limit
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch
from magnetar.geo.progress.state import SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.ledger.managed_ledger import ManagedLedger
    from magnetar.metadata.store import Put

log = structlog.get_logger(__name__)

TOMBSTONES_PROPERTY = "magnetar.tombstones"
"""Managed-ledger property: of each deleted replicated subscription a ``_Tombstone``, as JSON, the oldest first."""

TOMBSTONES_MAX = 1_000
"""Tombstones that a topic keeps. Beyond it the oldest is forgotten: a cluster that has been away since before that
deletion, and still has the subscription, then brings it back with what it had acknowledged. Nothing is skipped so."""


class _Tombstone(NamedTuple):
    """A deleted subscription's epoch, and where this log ended when its deletion was made or heard of here."""

    counter: int
    cluster: str
    ledger_id: int = EARLIEST.ledger_id
    entry_id: int = EARLIEST.entry_id

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.counter, self.cluster)


class Tombstones:
    """The tombstones of one topic, kept with its list of ledgers."""

    def __init__(self, ledger: ManagedLedger, limit_hits: LimitHits) -> None:
        """Read what is kept."""
        self._ledger = ledger
        self._limit_hits = limit_hits
        stored = json.loads(ledger.properties.get(TOMBSTONES_PROPERTY, "{}"))
        self._buried = {name: _Tombstone(*each) for name, each in stored.items()}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._buried)

    def get(self, name: str) -> SubscriptionProgress | None:
        """The tombstone of a subscription; None when it was not deleted, or that is forgotten."""
        buried = self._buried.get(name)
        return None if buried is None else SubscriptionProgress(name, epoch=buried.epoch, deleted=True)

    def states(self) -> list[SubscriptionProgress]:
        """All of them."""
        return [SubscriptionProgress(name, epoch=each.epoch, deleted=True) for name, each in self._buried.items()]

    def covers(self, name: str, position: Position) -> bool:
        """Whether what is said of a subscription up to ``position`` of this log may be older than its deletion."""
        buried = self._buried.get(name)
        return buried is not None and position <= Position(buried.ledger_id, buried.entry_id)

    def epoch_for_new(self, name: str) -> Epoch:
        """The epoch of a subscription that is created here now."""
        buried = self._buried.get(name)
        return FIRST_EPOCH if buried is None else buried.epoch.created_after()

    def add(self, tombstone: SubscriptionProgress, along_with: Sequence[Put] = ()) -> None:
        """Keep a tombstone, in place of an older one of the same subscription.

        It is durable on return, in one transaction with ``along_with``. A failed write leaves everything as it was.
        """
        buried = {name: each for name, each in self._buried.items() if name != tombstone.name}
        buried[tombstone.name] = _Tombstone(*tombstone.epoch, *self._ledger.last_confirmed_entry)
        forgotten = next(iter(buried)) if len(buried) > TOMBSTONES_MAX else None
        if forgotten is not None:
            del buried[forgotten]
        self._ledger.set_property(TOMBSTONES_PROPERTY, json.dumps(buried), along_with)
        self._buried = buried
        if forgotten is not None:
            self._limit_hits.hit(Limit.TOMBSTONES)
            log.warning("tombstone_forgotten", topic=self._ledger.name, subscription=forgotten)
