"""Subscriptions whose replication an operator disabled in this cluster; other clusters cannot enable it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

SWITCHED_OFF_PROPERTY = "magnetar.replication.off"
"""Managed-ledger property: names of subscriptions as a JSON list, in the order in which they were disabled."""

SWITCHED_OFF_MAX = 1_000
"""Maximum number of names. Beyond it, the oldest name without a subscription is evicted."""


class SwitchedOff:
    """Disabled subscriptions of one topic, stored with its list of ledgers; deleted subscriptions stay disabled."""

    def __init__(self, ledger: ManagedLedger, limit_hits: LimitHits) -> None:
        """Read the stored names."""
        self._ledger = ledger
        self._limit_hits = limit_hits
        self._names: dict[str, None] = dict.fromkeys(json.loads(ledger.properties.get(SWITCHED_OFF_PROPERTY, "[]")))

    def __iter__(self) -> Iterator[str]:
        """Return the names, in the order in which they were disabled."""
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        """Return whether the replication of this subscription is disabled."""
        return name in self._names

    def add(self, name: str, existing: Container[str]) -> None:
        """Disable a subscription. ``existing`` ones are never evicted."""
        self._names[name] = None
        if len(self._names) > SWITCHED_OFF_MAX:
            forgotten = next((each for each in self._names if each != name and each not in existing), None)
            if forgotten is not None:
                del self._names[forgotten]
                self._limit_hits.hit(Limit.SWITCHED_OFF)
                log.warning("switched_off_forgotten", topic=self._ledger.name, subscription=forgotten)
        self._save()

    def discard(self, name: str) -> None:
        """Enable a subscription by request in this cluster."""
        if name in self._names:
            del self._names[name]
            self._save()

    def discard_each(self, replicated: Iterable[str]) -> None:
        """Enable subscriptions that are replicated: a crash may have come before the list without them was durable."""
        for name in [name for name in replicated if name in self._names]:
            self.discard(name)

    def _save(self) -> None:
        self._ledger.set_property(SWITCHED_OFF_PROPERTY, json.dumps(list(self._names)))
