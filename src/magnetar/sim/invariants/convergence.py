"""Convergence: without new traffic all clusters hold the same entries and agree on every subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST
from magnetar.sim.checks.claimed import unclaimed
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.sim.checks.topic_checks import TopicChecks
    from magnetar.sim.site import Replica


class Convergence(Invariant):
    """See the module."""

    def missing(self) -> str:
        """See Invariant."""
        unsent = [producer.name for producer in self.simulation.producers if producer.pending]
        if unsent:
            return f"{unsent} have messages without receipts"
        for topic in self.simulation.checks.topics.values():
            missing = self._missing_in(topic)
            if missing:
                return f"{topic.name.local_name}: {missing}"
        return ""

    def _missing_in(self, topic: TopicChecks) -> str:
        replicas = [site.replicas[topic.name] for site in self.simulation.sites.values()]
        unready = [replica.cluster for replica in replicas if replica.topic is None]
        if unready:
            return f"{unready} have not loaded the topic"
        for source in replicas:
            for target in replicas:
                missing = ""
                if target is not source:
                    missing = self._lacks(topic, source, target) or self._not_returned(topic, source, target)
                if missing:
                    return missing
        if self.simulation.scenario.markers is not None:
            return ""  # subscriptions may differ: see Markers
        for name in self.simulation.scenario.subscriptions:
            states = {replica.cluster: state_of(topic, replica, name) for replica in replicas}
            first, *others = states.items()
            for other in others:
                if other[1] != first[1]:
                    return f"{name}: {first[0]} and {other[0]} differ: {_apart(first[1], other[1])}"
        return ""

    def _lacks(self, topic: TopicChecks, source: Replica, target: Replica) -> str:
        """Return an entry that ``target`` lacks and ``source`` has or trimmed; empty if there is none."""
        model = topic.model
        held, ever = model.logs[target.cluster].places, model.ever[target.cluster]
        for entry in model.published[source.cluster]:
            if entry.text in held or entry.text in model.custody.passed_over[target.cluster]:
                continue
            if topic.checker.is_due(entry, source, target.cluster):
                return f"{target.cluster} lacks {entry.text} of {source.cluster}"
            if {source.cluster, target.cluster} & self.simulation.were_away or not entry.is_for(target.cluster):
                continue
            if entry.text not in ever and not model.is_lost(entry):
                return f"{source.cluster} trimmed {entry.text}, which {target.cluster} never had"
        return ""

    def _not_returned(self, topic: TopicChecks, holder: Replica, owner: Replica) -> str:
        """Return an entry that ``owner`` lost with its disk and ``holder`` has not sent back; empty if there is none.

        Progress links detect such losses. A topic that was deleted later does not get the entry a second time.
        """
        assert holder.topic is not None
        model, first = topic.model, holder.topic.ledger.first_position
        scenario = self.simulation.scenario
        has_links = scenario.replicated and scenario.markers is None
        is_away = {holder.cluster, owner.cluster} & self.simulation.were_away
        if not has_links or is_away or model.disk_generations.get(owner.cluster) != model.generations[owner.cluster]:
            return ""
        held, back = model.logs[holder.cluster].places, model.returned[owner.cluster]
        for entry in model.published[owner.cluster][: model.lost_with_disk[owner.cluster]]:
            if held.get(entry.text, EARLIEST) >= first and entry.text not in back:
                return f"{owner.cluster} lost {entry.text}, but {holder.cluster} has not sent it back"
        return ""


def state_of(topic: TopicChecks, replica: Replica, name: str) -> dict[str, object]:
    """Return the state of a subscription in a cluster: the epoch, and the unacknowledged messages of each entry."""
    assert replica.topic is not None
    subscription = replica.topic.subscriptions.get(name)
    if subscription is None or subscription.progress is None:
        return {}
    state = subscription.progress.state
    left = {text: unclaimed(state, entry) for text, entry in topic.model.texts.items()}
    return {"epoch": state.epoch, **{text: bits for text, bits in left.items() if bits}}


def _apart(one: dict[str, object], other: dict[str, object]) -> str:
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return ", ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in keys[:4])
