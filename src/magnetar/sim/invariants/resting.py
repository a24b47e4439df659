"""Resting links: how often links rest, and no link that stays without a holder although it does not rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.geo.resting_links import RestingLinks
    from magnetar.sim.simulation import Simulation

_NO_COUNTS = (0, 0, 0)


class Resting(Invariant):
    """See the module."""

    counted = ("link rests", "resting link woken", "target of resting links lost")

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._seen: dict[str, tuple[RestingLinks, tuple[int, int, int]]] = {}
        """By cluster, the links of its last run and their counts."""

    def check(self) -> None:
        """See Invariant. Counts the changes since the last step."""
        for name, site in self.simulation.sites.items():
            links = site.environment.resting_links
            seen, before = self._seen.get(name, (links, _NO_COUNTS))
            if seen is not links:
                before = _NO_COUNTS
            counts = links.rested, links.woken, links.targets_lost
            self._seen[name] = links, counts
            for event, now, then in zip(self.counted, counts, before, strict=True):
                self.simulation.count(event, now - then)

    def missing(self) -> str:
        """See Invariant. Every link has a holder, or rests."""
        left = [
            f"{replica.name.local_name} in {replica.cluster} to {remote}"
            for replica in self.simulation.loaded()
            if replica.topic is not None
            for remote, link in replica.topic.replicators.items()
            if link.consumer is None and not link.rest.is_active
        ]
        return f"the link of {', '.join(left)} has no holder" if left else ""
