"""Ledgers: after everything is consumed and trimmed, the metadata refers to each ledger of a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.metadata.resources import DELETED_TOPIC, Topics, managed_ledger_path
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.metadata.store import MetadataStore
    from magnetar.sim.site import Site


class Ledgers(Invariant):
    """See the module."""

    counted = ("ledger kept because it may be data",)

    def at_end(self) -> str:
        """See Invariant. A start keeps unnamed ledgers that a crash left, if they may contain data.

        A start that cannot read the metadata with ledger ids keeps all of them; the next start that can deletes them.
        """
        for site in self.simulation.running():
            kept_below = _number(site.metadata, "/ledgers-swept-from")
            unnamed = sorted(set(site.store.list()) - set(_named(site)))
            self.simulation.count("ledger kept because it may be data", sum(each < kept_below for each in unnamed))
            kept = site.given_up | site.unswept
            leaked = [each for each in unnamed if each >= kept_below and each not in kept]
            if leaked:
                return f"{site.name} keeps ledgers {leaked[:5]} without references"
        return ""


def _named(site: Site) -> Iterator[int]:
    """Yield the ledgers of topics and cursors, and those with a recorded deletion."""
    metadata = site.metadata
    for name in Topics(metadata).all():
        path = managed_ledger_path(name)
        stored = metadata.get(path)
        if stored is not None and stored.value != DELETED_TOPIC:
            yield from (each["ledgerId"] for each in json.loads(stored.value)["ledgers"])
        for child in metadata.children(f"{path}/cursors"):
            cursor = metadata.get(f"{path}/cursors/{child}")
            if cursor is not None:
                yield json.loads(cursor.value)["cursorsLedgerId"]
    for child in metadata.children("/deleting-ledgers"):
        noted = metadata.get(f"/deleting-ledgers/{child}")
        if noted is not None:
            yield from json.loads(noted.value)


def _number(metadata: MetadataStore, path: str) -> int:
    stored = metadata.get(path)
    return 0 if stored is None else int(stored.value)
