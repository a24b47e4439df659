"""Resting links: how often links rest, and no link that stays without a holder although it does not rest.

The carrier of a link that needs a holder knows that soon. Without this check, a later lease, entry or loss would hide
that a carrier has forgotten a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.broker.replication.outbound.replicator import Replicator
    from magnetar.geo.resting_links import RestingLinks
    from magnetar.sim.pipeline import PipelineTask
    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Site

_NO_COUNTS = (0, 0, 0)

KNOWN_WITHIN_S = 3.0
"""Seconds within which a carrier learns of a due link, while no network or process is disturbed."""


class Resting(Invariant):
    """See the module."""

    counted = ("link rests", "resting link woken", "target of resting links lost")

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._seen: dict[str, tuple[RestingLinks, tuple[int, int, int]]] = {}
        """By cluster, the links of its last run and their counts."""
        self._unknown_since: dict[tuple[Replicator, PipelineTask], float] = {}
        """By due link and task that should carry it, the time since which the task does not know that."""

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
        self._check_due()

    def _check_due(self) -> None:
        """Check that no link is due for long that its carrier does not know."""
        now, before = self.simulation.scheduler.now, self._unknown_since
        self._unknown_since = {key: before.get(key, now) for key in self._unknown()}
        for (link, _), since in self._unknown_since.items():
            if now - since > KNOWN_WITHIN_S:
                where = f"{link.topic.name.local_name} in {link.topic.environment.cluster} to {link.target}"
                self.simulation.checks.violate(f"the link of {where} is due, and its carrier does not know it")

    def _unknown(self) -> Iterator[tuple[Replicator, PipelineTask]]:
        """Yield each link that is due, with the task that should carry it, but does not know that."""
        pipelines = {pipeline.target: pipeline for pipeline in self.simulation.pipelines}
        for replica in self.simulation.loaded():
            assert replica.topic is not None
            for target, link in replica.topic.replicators.items():
                is_due = link.consumer is None and not link.rest.is_active and link.rest.pipeline is not None
                task = pipelines[target].carrier(link.rest.bucket) if is_due else None
                if task is None or task.knows(replica.cluster, str(replica.name)):
                    continue
                if self._are_connected(replica.site, task):
                    yield link, task

    def _are_connected(self, site: Site, task: PipelineTask) -> bool:
        """Return whether nothing hinders a broker from reporting links to a task."""
        network, now = self.simulation.network, self.simulation.scheduler.now
        is_stopped = max(site.loop.stopped_until, task.machine.stopped_until) > now
        return not (is_stopped or network.is_disturbed) and task.carries_for(site.name)

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
