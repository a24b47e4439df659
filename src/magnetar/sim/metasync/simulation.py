"""The clusters, the pipeline of the event topic, and the history of one world of metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from magnetar.sim.metasync.checks import EventChecks
from magnetar.sim.metasync.site import SynchronizedSite
from magnetar.sim.pipeline import Pipeline
from magnetar.sim.simulation import Simulation

if TYPE_CHECKING:
    from magnetar.sim.metasync.history import History
    from magnetar.sim.metasync.scenario import MetadataScenario
    from magnetar.sim.site import Site

SKEW_S = 600.0
"""Maximum offset of a clock, in either direction, in seconds."""


class MetadataSimulation(Simulation):
    """See Simulation."""

    history: History
    synchronized: dict[str, SynchronizedSite]
    """All clusters by name."""

    def _create_clusters(self) -> None:
        scenario = cast("MetadataScenario", self.scenario)
        checks = EventChecks(scenario, self.scheduler, self.trace)
        self.checks, self.history = checks, checks.history
        names, self.synchronized = scenario.clusters, {}
        for name in names:
            others = [other for other in names if other != name]
            site = SynchronizedSite(name, scenario, self.scheduler, self.network, self.checks)
            site.history = self.history
            self.sites[name] = self.synchronized[name] = site
            self.pipelines.append(Pipeline(name, others, self.scheduler, self.network, self.chance))
        self.history.sites.update(self.synchronized)

    def _start_first(self, site: Site) -> None:
        site.clock.jumped_s = self.chance.uniform(-SKEW_S, SKEW_S)
        if site.name in self.members:
            site.start()

    @property
    def members(self) -> tuple[str, ...]:
        """The clusters that synchronize their metadata now."""
        return next(iter(self.synchronized.values())).members

    def set_members(self, members: tuple[str, ...]) -> None:
        """Register these clusters with each other."""
        for site in self.synchronized.values():
            site.set_members(members)

    def start(self, site: Site) -> None:
        """See Simulation; a cluster that has left stays down."""
        if site.name in self.members:
            super().start(site)

    def replace_disk(self, site: Site) -> None:
        """See Simulation."""
        self.history.disk_lost(self.synchronized[site.name])
        super().replace_disk(site)

    def running_members(self) -> list[SynchronizedSite]:
        """Return the members with a running broker."""
        return [site for site in self.synchronized.values() if site.running and site.is_member]
