"""Protection: the statistics about acknowledgements in other clusters agree with the model.

A figure is never too low: an acknowledgement reported as confirmed is in the other cluster. In the liveness phase
everything becomes confirmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.replication.protection import protection_of
from magnetar.geo.protection import Status
from magnetar.sim.checks.claimed import unclaimed
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.confirmations import Unconfirmed
    from magnetar.sim.checks.topic_checks import TopicChecks
    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica

EVERY = 4
"""Number of steps between two checks."""

LATE_S = 1.5
"""Time after which a missing confirmation counts as late; longer than ``replicatedSubscriptionAtRiskAfterMs``."""


class Protection(Invariant):
    """See the module. Skipped where entries are not synced, because a cluster may lose confirmed entries there."""

    counted = ("progress reported as unconfirmed", "progress unknown", "subscription protected")

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._steps = 0

    def check(self) -> None:
        """See Invariant."""
        self._steps += 1
        scenario = self.simulation.scenario
        if self._steps % EVERY == 0 and scenario.sync and scenario.markers is None:
            for replica in self.simulation.loaded():
                self._check(self.simulation.checks.topics[replica.name], replica)

    def _check(self, topic: TopicChecks, replica: Replica) -> None:
        assert replica.topic is not None
        if topic.model.generations[replica.cluster]:
            return
        judged = protection_of(replica.topic)
        for name, subscription in replica.topic.subscriptions.items():
            keeper = subscription.shared_progress
            if keeper is None:
                continue
            is_protected = judged[name].status is Status.PROTECTED
            self.simulation.count("subscription protected", is_protected)
            for remote, unconfirmed in replica.topic.progress.unconfirmed(keeper).items():
                self.simulation.count("progress unknown", unconfirmed is None)
                if not topic.model.generations[remote]:
                    lacks = self._lacks(topic, replica, subscription, remote)
                    self._check_count(topic, f"{name} in {replica.cluster}", remote, unconfirmed, lacks)
                    if is_protected and not self.simulation.scenario.weight("clocks"):
                        self._check_protected(topic, replica, name, remote, lacks)

    def _check_count(
        self, topic: TopicChecks, where: str, remote: str, unconfirmed: Unconfirmed | None, lacks: dict[str, float]
    ) -> None:
        """S: the unconfirmed count is unknown, or not below the number of entries that the other cluster lacks."""
        if unconfirmed is None:
            return
        self.simulation.count("progress reported as unconfirmed", unconfirmed.since is not None)
        if lacks and unconfirmed.since is None:
            self.simulation.checks.violate(
                f"S: {topic.name.local_name}: {where} reports that {remote} has confirmed everything, but it lacks "
                f"{list(lacks)[:5]}"
            )

    def _check_protected(
        self, topic: TopicChecks, replica: Replica, name: str, remote: str, lacks: dict[str, float]
    ) -> None:
        """S: a protected subscription has everything in the other clusters, apart from recent acknowledgements."""
        assert replica.topic is not None
        model, before = topic.model, self.simulation.scheduler.now - LATE_S
        late = [text for text, at in lacks.items() if at < before]
        first, log = replica.topic.ledger.first_position, model.logs[replica.cluster]
        got = model.ever[remote].keys() | model.custody.passed_over[remote]
        for entry in log.of.get(replica.cluster, []):
            is_late = entry.position >= first and log.ages.appended_at[entry.position] < before
            if is_late and entry.text not in got and entry.is_for(remote):
                late.append(entry.text)
        if late:
            self.simulation.checks.violate(
                f"S: {topic.name.local_name}: {name} in {replica.cluster} is reported as protected, but {remote} has "
                f"lacked {late[:5]} for {LATE_S} s"
            )

    def _lacks(self, topic: TopicChecks, replica: Replica, subscription: Subscription, remote: str) -> dict[str, float]:
        """Return the acknowledged entries that a cluster does not know, with the time of their confirmation here."""
        other = self.simulation.sites[remote].replicas[replica.name].topic
        theirs = other.subscriptions.get(subscription.name) if other is not None else None
        made = topic.model.made.get((replica.cluster, subscription.name))
        assert subscription.progress is not None
        epoch = subscription.progress.state.epoch
        if made is None or theirs is None or theirs.progress is None:
            return {}
        state = theirs.progress.state
        if made.epoch != epoch or state.epoch != epoch:
            return {}
        return {
            text: made.at[text]
            for text, mask in made.acknowledged.items()
            if unclaimed(state, topic.model.texts[text]) & mask
        }

    def at_end(self) -> str:
        """See Invariant."""
        expected = Status.AT_RISK if self.simulation.scenario.markers is not None else Status.PROTECTED
        for replica in self.simulation.loaded():
            assert replica.topic is not None
            for name, judged in protection_of(replica.topic).items():
                subscription = replica.topic.subscriptions[name]
                wanted = expected if subscription.is_replicated else Status.UNPROTECTED
                if judged.status is not wanted:
                    where = f"{name} of {replica.name.local_name} in {replica.cluster}"
                    return f"{where} is {judged.status}, not {wanted}: {judged.reasons[:2]}"
        return ""
