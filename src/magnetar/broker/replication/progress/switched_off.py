"""The subscriptions whose replication an operator switched off in this cluster; no other cluster can switch it on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog

from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.ledger.managed_ledger import ManagedLedger

log = structlog.get_logger(__name__)

SWITCHED_OFF_PROPERTY = "magnetar.replication.off"
"""Managed-ledger property: names of subscriptions as a JSON list, the one switched off longest ago first."""

SWITCHED_OFF_MAX = 1_000
"""Names beyond which the oldest is forgotten of which no subscription is left: another cluster may bring that back."""


class SwitchedOff:
    """Those of one topic, kept with its list of ledgers: a subscription that is deleted here stays switched off."""

    def __init__(self, ledger: ManagedLedger, limit_hits: LimitHits) -> None:
        """Read what is kept."""
        self._ledger = ledger
        self._limit_hits = limit_hits
        self._names: dict[str, None] = dict.fromkeys(json.loads(ledger.properties.get(SWITCHED_OFF_PROPERTY, "[]")))

    def __iter__(self) -> Iterator[str]:
        """The names, the one switched off longest ago first."""
        return iter(self._names)

    def __contains__(self, name: object) -> bool:
        """Whether a subscription of this name was switched off, and not on again."""
        return name in self._names

    def add(self, name: str, existing: Container[str]) -> None:
        """Note that a subscription was switched off; durable on return. ``existing`` are never forgotten."""
        self._names[name] = None
        if len(self._names) > SWITCHED_OFF_MAX:
            forgotten = next((each for each in self._names if each != name and each not in existing), None)
            if forgotten is not None:
                del self._names[forgotten]
                self._limit_hits.hit(Limit.SWITCHED_OFF)
                log.warning("switched_off_forgotten", topic=self._ledger.name, subscription=forgotten)
        self._save()

    def discard(self, name: str) -> None:
        """Note that somebody here asks for it again; durable on return."""
        if name in self._names:
            del self._names[name]
            self._save()

    def _save(self) -> None:
        self._ledger.set_property(SWITCHED_OFF_PROPERTY, json.dumps(list(self._names)))
