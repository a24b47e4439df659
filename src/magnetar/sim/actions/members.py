"""Members: a cluster leaves the namespace's replication clusters, and returns.

Mostly another cluster keeps the entries of the one that leaves, and carries them to the rest until it returns. In some
returns it goes on: a cluster that has deleted its topics meanwhile gets its own earlier entries back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST
from magnetar.sim.actions.storage.lives import Topics
from magnetar.sim.content import Draft
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.metadata.policies import Policies
    from magnetar.sim.simulation import Simulation


KEPT_OF_EACH = 6
"""Messages of each producer of a cluster that leaves for good, so that several of them are carried together."""

CUSTODY_SHARE = 0.7
"""Share of the clusters that leave whose entries are given into the custody of another one."""

KEPT_SHARE = 0.5
"""Share of the returns after which the policy still names the custodian."""

REJOINED_SHARE = 0.9
"""Share of the runs with few members at the end in which all clusters return before one leaves for good."""

DELETED_SHARE = 0.6
"""Share of the clusters that return at the end whose topics were deleted meanwhile."""

LOSS_SHARE = 0.5
"""Share of the moves on which entries in custody are lost."""

CARRIED_S = 0.1
"""Virtual seconds in which most entries in custody are carried."""

SPREAD_S = 2.0
"""Virtual seconds in which most entries reach the custodian."""

EMPTY_S = (0.5, 2.0)
"""Bounds of the time for which a cluster that is away is without its topics, in virtual seconds."""

RETURNED_S = 3.0
"""Virtual seconds in which most entries are sent back."""

MEMBERS_MIN = 2
"""Minimum number of members."""


class Members(ActionGroup):
    """See the module. Members stay in scenarios with a lag limit, because that limit counts members."""

    name = "members"
    share = 0.4
    counted = ("cluster returns without its topics",)

    def __init__(self, simulation: Simulation) -> None:
        """All clusters are members."""
        super().__init__(simulation)
        self._members = list(simulation.sites)

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (Action("cluster leaves", 0.6, self._leave), Action("cluster returns", 0.6, self._return))

    def move_on(self) -> None:
        """Let a cluster leave for good, with entries that its custodian has and another member lacks.

        Some of these are lost on their way.
        """
        if len(self._members) <= MEMBERS_MIN and self.chance.random() < REJOINED_SHARE:
            self.rejoin()
            self.simulation.run(SPREAD_S)
        members, producers = self._members, self.simulation.producers
        origins = sorted({each.cluster for each in producers} & set(members))
        if not self.simulation.scenario.weight(self.name) or not self._may_leave() or not origins:
            return
        origin = self.chance.choice(origins)
        custodian, late = self.chance.sample([each for each in members if each != origin], 2)
        self._tell([each for each in members if each != late], self.simulation.custody)
        for producer in producers * KEPT_OF_EACH:
            if producer.cluster == origin:
                producer.publish(Draft(int(self.simulation.sites[origin].clock.now() * 1000)))
        self.simulation.run(self.chance.uniform(0.5, SPREAD_S))
        if self.chance.random() < LOSS_SHARE:
            carrying = next(each for each in self.simulation.pipelines if each.target == late)
            self.simulation.later(self.chance.uniform(0.0, CARRIED_S), carrying.lose)
        self.simulation.were_away |= {origin, late}
        self.simulation.note(origin, f"leaves the namespace for good; {custodian} keeps its entries, {late} is back")
        custody = {away: each for away, each in self.simulation.custody.items() if each != origin}
        self._tell([each for each in members if each != origin], custody | {origin: custodian})
        self._have_topics([late])

    def come_back(self) -> None:
        """Let a cluster return to its custodian, mostly without the topics: it has deleted them while it was away.

        In some runs the link or one of the brokers fails meanwhile.
        """
        away = sorted(self.simulation.custody.keys() - set(self._members))
        if not away:
            return
        origin = max(away, key=self._count_kept)
        custodian, site = self.simulation.custody[origin], self.simulation.sites[origin]
        if self.chance.random() < DELETED_SHARE:
            site.change_policies(partial(_set_members, members=[origin], custody={}))  # else it refuses to delete
            self.simulation.run(self.chance.uniform(*EMPTY_S))
            for plan in self.simulation.scenario.plans:
                self.simulation.group(Topics).delete(site, plan)
            self.simulation.run(self.chance.uniform(*EMPTY_S))
            self.simulation.count("cluster returns without its topics")
        self.simulation.note(origin, f"returns; {custodian} sends its entries back")
        self._tell([*self._members, origin], self.simulation.custody)
        self._have_topics([origin])
        if self.chance.random() < LOSS_SHARE:
            carrying = next(each for each in self.simulation.pipelines if each.target == origin)
            self.simulation.later(self.chance.uniform(0.0, RETURNED_S), carrying.lose)
        if self.chance.random() < LOSS_SHARE:
            ended = self.simulation.sites[self.chance.choice((origin, custodian))]
            self.simulation.later(self.chance.uniform(0.0, RETURNED_S), lambda: self.simulation.kill(ended))
        self.simulation.run(RETURNED_S)

    def _count_kept(self, origin: str) -> int:
        custodian = self.simulation.custody[origin]
        topics = self.simulation.checks.topics.values()
        return sum(len(topic.model.logs[custodian].of.get(origin, [])) for topic in topics)

    def _may_leave(self) -> bool:
        scenario = self.simulation.scenario
        return scenario.lag is None and not scenario.replicate_to and len(self._members) > MEMBERS_MIN

    def rejoin(self) -> None:
        """Let all clusters return, after the custodians had the time to carry what they keep."""
        if self.simulation.were_away:
            self._tell(list(self.simulation.sites), {})
            self._have_topics(sorted(self.simulation.were_away))

    def _have_topics(self, clusters: Iterable[str]) -> None:
        """Finish deletions that failed while clusters were away, and create missing topics, as clients do."""
        for cluster in clusters:
            site = self.simulation.sites[cluster]
            site.loop.create_task(self.simulation.have_topics(site))

    def _leave(self) -> bool:
        members = self._members
        if self.simulation.scenario.lag is not None or len(members) <= MEMBERS_MIN:
            return False
        leaver = self.chance.choice(members)
        self.simulation.were_away.add(leaver)
        rest = [cluster for cluster in members if cluster != leaver]
        # The entries of a cluster that leaves follow its custodian to another one when that leaves, too.
        custody = {away: each for away, each in self.simulation.custody.items() if each != leaver}
        if not self.simulation.scenario.replicate_to and self.chance.random() < CUSTODY_SHARE:
            for away in (leaver, *sorted(self.simulation.custody.keys() - custody.keys() - set(rest))):
                custody[away] = self.chance.choice(rest)
            self.simulation.count("entries given into custody")
        self.simulation.note(leaver, f"leaves the namespace; custody: {custody}")
        self._tell(rest, custody)
        return True

    def _return(self) -> bool:
        away = [cluster for cluster in self.simulation.sites if cluster not in self._members]
        if away:
            cluster = self.chance.choice(away)
            is_kept = self.chance.random() < KEPT_SHARE
            custody = {each: by for each, by in self.simulation.custody.items() if is_kept or each != cluster}
            self.simulation.note(cluster, f"returns to the namespace; custody: {custody}")
            self._tell([each for each in self.simulation.sites if each in (*self._members, cluster)], custody)
        return bool(away)

    def _note_passed_over(self, origin: str) -> None:
        """Note the entries of ``origin`` that a cluster does not get any more, because it has later ones.

        The cluster that sent them, ``origin`` or its custodian, lacked them, or had trimmed them.
        """
        sender = self.simulation.custody.get(origin, origin)
        for name, topic in self.simulation.checks.topics.items():
            model, replica = topic.model, self.simulation.sites[sender].replicas[name]
            places = model.logs[sender].places
            for target in self.simulation.sites:
                held = model.logs[target].of.get(origin, [])
                newest = max((entry.position for entry in held), default=EARLIEST)
                model.custody.passed_over[target] |= {
                    entry.text
                    for entry in model.published[origin]
                    if entry.position < newest and not replica.has_listed(places.get(entry.text, EARLIEST))
                }

    def _tell(self, members: list[str], custody: dict[str, str]) -> None:
        for origin in sorted(self.simulation.custody.keys() | custody.keys()):
            self._note_passed_over(origin)
        back = [each for each in members if each in custody and each not in self._members]
        self._members, self.simulation.custody = members, custody
        for topic in self.simulation.checks.topics.values():
            topic.model.custody.custodians = {each: by for each, by in custody.items() if each not in members}
            for cluster in back:
                topic.model.returns(cluster)
        for site in self.simulation.sites.values():
            site.change_policies(partial(_set_members, members=members, custody=custody))


def _set_members(policies: Policies, *, members: list[str], custody: dict[str, str]) -> None:
    policies.replication_clusters = members
    policies.custody = custody or None
