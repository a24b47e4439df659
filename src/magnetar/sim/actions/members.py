"""Members: a cluster leaves the namespace's replication clusters, and returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.metadata.policies import Policies


class Members(ActionGroup):
    """See the module. Members stay in scenarios with a lag limit, because that limit counts members."""

    name = "members"
    share = 0.25

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("cluster leaves", 0.6, self._leave), Action("cluster returns", 0.6, self._return))

    def heal(self) -> None:
        """See ActionGroup."""
        if self.simulation.were_away:
            self._tell(list(self.simulation.sites))

    def _members(self) -> list[str]:
        return next(iter(self.simulation.sites.values())).policies.replication_clusters

    def _leave(self) -> bool:
        members = self._members()
        if self.simulation.scenario.lag is not None or len(members) < 3:
            return False
        leaver = self.chance.choice(members)
        self.simulation.were_away.add(leaver)
        self.simulation.note(leaver, "leaves the namespace")
        self._tell([cluster for cluster in members if cluster != leaver])
        return True

    def _return(self) -> bool:
        away = [cluster for cluster in self.simulation.sites if cluster not in self._members()]
        if away:
            cluster = self.chance.choice(away)
            self.simulation.note(cluster, "returns to the namespace")
            self._tell([each for each in self.simulation.sites if each in (*self._members(), cluster)])
        return bool(away)

    def _tell(self, members: list[str]) -> None:
        def change(policies: Policies) -> None:
            policies.replication_clusters = members

        for site in self.simulation.sites.values():
            site.change_policies(change)
