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

    counted = ("entries in custody are kept", "entries in custody carried", "entries in custody returned")

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
        if origin in sites[custodian].policies.replication_clusters:
            return self._not_returned(topic, keeper, origin, custodian)
        kept = list(_kept(topic, keeper, origin, custodian))
        self.simulation.count("entries in custody are kept", bool(kept))
        for target in sites[custodian].policies.replication_clusters:
            if target == custodian:
                continue
            if kept and sites[target].replicas[topic.name].topic is None:  # without entries, nobody creates it there
                return f"{target} has not loaded the topic"
            got = topic.model.logs[target].places.keys() | topic.model.custody.passed_over[target]
            missing = next((each for each in kept if each.is_for(target) and each.text not in got), None)
            if missing is not None:
                return f"{target} lacks {missing.text} of {origin}, which is in the custody of {custodian}"
            link = keeper.replicators.get(target)
            if link is None or link.backlog is None:
                return f"the replication backlog of {custodian} to {target} is unknown"
        return ""

    def _not_returned(self, topic: TopicChecks, keeper: Topic, origin: str, custodian: str) -> str:
        """Return an entry that a member deleted before it returned, and lacks; empty if there is none.

        The custodian learns the life of the member from a progress link.
        """
        model, scenario = topic.model, self.simulation.scenario
        if not scenario.replicated or scenario.markers is not None:
            return ""
        back = model.returned[origin]
        for entry in model.published[origin][: model.custody.lost_before_return[origin]]:
            self.simulation.count("entries in custody returned", entry.text in back)
            if entry.text not in back and _is_readable(topic, keeper, custodian, entry):
                return f"{origin} deleted {entry.text}, but {custodian} has not sent it back"
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
            got = model.ever[target].keys() | model.custody.passed_over[target]
            kept = _kept(topic, keeper, origin, custodian)
            lacks = [each.text for each in kept if each.is_for(target) and each.text not in got]
            if backlog < len(lacks):
                self.simulation.checks.violate(
                    f"S: {topic.name.local_name} in {custodian} reports a backlog of {backlog} entries in custody, but "
                    f"{target} lacks {lacks[:5]} of {origin}"
                )


def _kept(topic: TopicChecks, keeper: Topic, origin: str, custodian: str) -> Iterator[Entry]:
    """Yield the entries of ``origin`` that the custodian can carry: neither trimmed nor damaged nor of a lost topic."""
    for entry in topic.model.logs[custodian].of.get(origin, []):
        if not topic.model.is_lost(entry) and _is_readable(topic, keeper, custodian, entry):
            yield entry


def _is_readable(topic: TopicChecks, keeper: Topic, custodian: str, entry: Entry) -> bool:
    """Return whether the custodian has an entry that is neither trimmed nor damaged."""
    place = topic.model.logs[custodian].places.get(entry.text, EARLIEST)
    return entry.whole not in topic.model.damaged and place >= keeper.ledger.first_position
