"""Custody: what a cluster keeps of one that is away reaches all members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.broker.topic.topic import Topic
    from magnetar.sim.checks.model import Entry
    from magnetar.sim.checks.topic_checks import TopicChecks


class Custody(Invariant):
    """See the module."""

    counted = ("entries in custody are kept", "entries in custody carried")

    def left(self) -> str:
        """Return a reason why the custodians have not carried everything to the members; empty if they have."""
        for origin, custodian in self.simulation.custody.items():
            for topic in self.simulation.checks.topics.values():
                reason = self._left_of(topic, origin, custodian)
                if reason:
                    return f"{topic.name.local_name}: {reason}"
        return ""

    def _left_of(self, topic: TopicChecks, origin: str, custodian: str) -> str:
        sites = self.simulation.sites
        keeper = sites[custodian].replicas[topic.name].topic
        if keeper is None:
            return f"{custodian} has not loaded the topic"
        kept = list(_kept(topic, keeper, origin, custodian))
        self.simulation.count("entries in custody are kept", bool(kept))
        for target in sites[custodian].policies.replication_clusters:
            if target == custodian:
                continue
            if kept and sites[target].replicas[topic.name].topic is None:  # without entries, nobody creates it there
                return f"{target} has not loaded the topic"
            got = topic.model.logs[target].places.keys() | topic.model.passed_over[target]
            missing = next((each for each in kept if each.is_for(target) and each.text not in got), None)
            if missing is not None:
                return f"{target} lacks {missing.text} of {origin}, which is in the custody of {custodian}"
            link = keeper.replicators.get(target)
            if link is None or link.backlog is None:
                return f"the replication backlog of {custodian} to {target} is unknown"
        return ""

    def check(self) -> None:
        """S: the backlog of a custodian is unknown, or not below what the target lacks of the entries in custody."""
        for origin, custodian in self.simulation.custody.items():
            for topic in self.simulation.checks.topics.values():
                keeper = self.simulation.sites[custodian].replicas[topic.name].topic
                if keeper is not None:
                    self._check_backlogs(topic, keeper, origin, custodian)

    def _check_backlogs(self, topic: TopicChecks, keeper: Topic, origin: str, custodian: str) -> None:
        model = topic.model
        for target, link in keeper.replicators.items():
            custody = link.foreign.custody
            self.simulation.count("entries in custody carried", custody.entries_out > 0)
            backlog = custody.backlog
            if origin not in custody.origins or backlog is None or model.generations[target]:
                continue
            got = model.ever[target].keys() | model.passed_over[target]
            kept = _kept(topic, keeper, origin, custodian)
            lacks = [each.text for each in kept if each.is_for(target) and each.text not in got]
            if backlog < len(lacks):
                self.simulation.checks.violate(
                    f"S: {topic.name.local_name} in {custodian} reports a backlog of {backlog} entries in custody, but "
                    f"{target} lacks {lacks[:5]} of {origin}"
                )


def _kept(topic: TopicChecks, keeper: Topic, origin: str, custodian: str) -> Iterator[Entry]:
    """Yield the entries of ``origin`` that the custodian can carry: neither trimmed nor damaged nor of a lost topic."""
    model, first = topic.model, keeper.ledger.first_position
    places = model.logs[custodian].places
    for entry in model.logs[custodian].of.get(origin, []):
        is_whole = not model.is_lost(entry) and entry.whole not in model.damaged
        if is_whole and places.get(entry.text, EARLIEST) >= first:
            yield entry
