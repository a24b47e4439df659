"""Convergence: without new traffic all clusters hold the same entries, and say the same of every subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.invariants.base import Invariant

if TYPE_CHECKING:
    from magnetar.sim.replica import Replica
    from magnetar.sim.topic_referee import TopicReferee


class Convergence(Invariant):
    """See the module."""

    def missing(self) -> str:
        """See Invariant."""
        unsent = [producer.name for producer in self.world.producers if producer.pending]
        if unsent:
            return f"{unsent} have messages without receipts"
        for topic in self.world.referee.topics.values():
            missing = self._missing_in(topic)
            if missing:
                return f"{topic.name.local_name}: {missing}"
        return ""

    def _missing_in(self, topic: TopicReferee) -> str:
        replicas = [site.replicas[topic.name] for site in self.world.sites.values()]
        unready = [replica.cluster for replica in replicas if replica.topic is None]
        if unready:
            return f"{unready} have not loaded the topic"
        for source in replicas:
            for target in replicas:
                missing = self._lacks(topic, source, target) if target is not source else ""
                if missing:
                    return missing
        if self.world.scenario.markers is not None:
            return ""  # subscriptions need not be the same: see Markers
        for name in self.world.scenario.subscriptions:
            states = {replica.cluster: state_of(topic, replica, name) for replica in replicas}
            first, *others = states.items()
            for other in others:
                if other[1] != first[1]:
                    return f"{name}: {first[0]} and {other[0]} differ: {_apart(first[1], other[1])}"
        return ""

    def _lacks(self, topic: TopicReferee, source: Replica, target: Replica) -> str:
        """What is not in ``target`` and should be: all that ``source`` has, and all that it trimmed."""
        model = topic.model
        held, ever = model.logs[target.cluster].places, model.ever[target.cluster]
        for entry in model.published[source.cluster]:
            if entry.text in held:
                continue
            if topic.checker.is_due(entry, source, target.cluster):
                return f"{target.cluster} lacks {entry.text} of {source.cluster}"
            if {source.cluster, target.cluster} & self.world.were_away or not entry.is_for(target.cluster):
                continue
            if entry.text not in ever and not model.is_lost(entry):
                return f"{source.cluster} trimmed {entry.text}, which {target.cluster} never had"
        return ""


def state_of(topic: TopicReferee, replica: Replica, name: str) -> dict[str, object]:
    """What a cluster says of a subscription: its epoch, and what is left of each entry."""
    assert replica.topic is not None
    subscription = replica.topic.subscriptions.get(name)
    if subscription is None or subscription.progress is None:
        return {}
    state = subscription.progress.state
    left = {text: topic.checker.unclaimed(state, entry) for text, entry in topic.model.texts.items()}
    return {"epoch": state.epoch, **{text: bits for text, bits in left.items() if bits}}


def _apart(one: dict[str, object], other: dict[str, object]) -> str:
    keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return ", ".join(f"{key}: {one.get(key)} and {other.get(key)}" for key in keys[:4])
