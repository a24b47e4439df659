"""What remains of replicated subscriptions that were deleted: their epochs, so that no late state brings them back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

from magnetar.geo.epochs import FIRST_EPOCH, Epoch
from magnetar.geo.progress import SubscriptionProgress

if TYPE_CHECKING:
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

TOMBSTONES_PROPERTY = "magnetar.tombstones"
"""Managed-ledger property: the epochs of deleted replicated subscriptions, as JSON, the oldest deletion first."""

TOMBSTONES_MAX = 1_000
"""Tombstones that a topic keeps. Beyond it the oldest is forgotten: a cluster that has been away since before that
deletion, and still has the subscription, then brings it back with what it had acknowledged. Nothing is skipped so."""


class Tombstones:
    """The tombstones of one topic, kept with its list of ledgers."""

    def __init__(self, ledger: ManagedLedger) -> None:
        """Read what is kept."""
        self._ledger = ledger
        stored: dict[str, tuple[int, str]] = json.loads(ledger.properties.get(TOMBSTONES_PROPERTY, "{}"))
        self._epochs = {name: Epoch(*epoch) for name, epoch in stored.items()}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._epochs)

    def get(self, name: str) -> SubscriptionProgress | None:
        """The tombstone of a subscription; None when it was not deleted, or that is forgotten."""
        epoch = self._epochs.get(name)
        return None if epoch is None else SubscriptionProgress(name, epoch=epoch, deleted=True)

    def states(self) -> list[SubscriptionProgress]:
        """All of them."""
        return [SubscriptionProgress(name, epoch=epoch, deleted=True) for name, epoch in self._epochs.items()]

    def epoch_for_new(self, name: str) -> Epoch:
        """The epoch of a subscription that is created here now."""
        epoch = self._epochs.get(name)
        return FIRST_EPOCH if epoch is None else epoch.created_after()

    def add(self, tombstone: SubscriptionProgress) -> None:
        """Keep a tombstone, in place of an older one of the same subscription; durable on return."""
        self._epochs.pop(tombstone.name, None)
        self._epochs[tombstone.name] = tombstone.epoch
        if len(self._epochs) > TOMBSTONES_MAX:
            forgotten = next(iter(self._epochs))
            del self._epochs[forgotten]
            log.warning("tombstone_forgotten", topic=self._ledger.name, subscription=forgotten)
        self._ledger.set_property(TOMBSTONES_PROPERTY, json.dumps(self._epochs))
