"""Protection: what statistics say of acknowledgements in other clusters is what the model knows.

A figure is never too low: what is reported as confirmed is there. In peace everything is confirmed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.replication.protection import protection_of
from magnetar.geo.protection import Status
from magnetar.sim.referees.claimed import unclaimed
from magnetar.sim.world import Invariant

if TYPE_CHECKING:
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.confirmations import Unconfirmed
    from magnetar.sim.referees.topic_referee import TopicReferee
    from magnetar.sim.site import Replica
    from magnetar.sim.world import World

EVERY = 4
"""Checks come after every so many steps."""

LATE_S = 1.5
"""What is missing for longer is no longer under way: some more than ``replicatedSubscriptionAtRiskAfterMs``."""


class Protection(Invariant):
    """See the module. It says nothing where entries are not synced: a cluster may lose what it has confirmed."""

    counted = ("progress reported as unconfirmed", "progress unknown", "subscription protected")

    def __init__(self, world: World) -> None:
        """Watch ``world``."""
        super().__init__(world)
        self._steps = 0

    def check(self) -> None:
        """See Invariant."""
        self._steps += 1
        scenario = self.world.scenario
        if self._steps % EVERY == 0 and scenario.sync and scenario.markers is None:
            for replica in self.world.loaded():
                self._check(self.world.referee.topics[replica.name], replica)

    def _check(self, topic: TopicReferee, replica: Replica) -> None:
        assert replica.topic is not None
        if topic.model.generations[replica.cluster]:
            return
        judged = protection_of(replica.topic)
        for name, subscription in replica.topic.subscriptions.items():
            keeper = subscription.shared_progress
            if keeper is None:
                continue
            is_protected = judged[name].status is Status.PROTECTED
            self.world.count("subscription protected", is_protected)
            for remote, unconfirmed in replica.topic.progress.unconfirmed(keeper).items():
                self.world.count("progress unknown", unconfirmed is None)
                if not topic.model.generations[remote]:
                    lacks = self._lacks(topic, replica, subscription, remote)
                    self._check_count(topic, f"{name} in {replica.cluster}", remote, unconfirmed, lacks)
                    if is_protected and not self.world.scenario.weight("clocks"):
                        self._check_protected(topic, replica, name, remote, lacks)

    def _check_count(
        self, topic: TopicReferee, where: str, remote: str, unconfirmed: Unconfirmed | None, lacks: dict[str, float]
    ) -> None:
        """S: what is not confirmed is unknown, or not less than what the other cluster lacks."""
        if unconfirmed is None:
            return
        self.world.count("progress reported as unconfirmed", unconfirmed.since is not None)
        if lacks and unconfirmed.since is None:
            self.world.referee.violate(
                f"S: {topic.name.local_name}: {where} reports that {remote} has confirmed everything, and it has not "
                f"heard of {list(lacks)[:5]}"
            )

    def _check_protected(
        self, topic: TopicReferee, replica: Replica, name: str, remote: str, lacks: dict[str, float]
    ) -> None:
        """S: a subscription is protected only if the other clusters have all but what is under way."""
        assert replica.topic is not None
        model, before = topic.model, self.world.scheduler.now - LATE_S
        late = [text for text, at in lacks.items() if at < before]
        first, log, ever = replica.topic.ledger.first_position, model.logs[replica.cluster], model.ever[remote]
        for entry in log.of.get(replica.cluster, []):
            is_late = entry.position >= first and log.ages.appended_at[entry.position] < before
            if is_late and entry.text not in ever and entry.is_for(remote):
                late.append(entry.text)
        if late:
            self.world.referee.violate(
                f"S: {topic.name.local_name}: {name} in {replica.cluster} is reported as protected, and {remote} has "
                f"lacked {late[:5]} for {LATE_S} s"
            )

    def _lacks(
        self, topic: TopicReferee, replica: Replica, subscription: Subscription, remote: str
    ) -> dict[str, float]:
        """What was acknowledged here and that a cluster does not know, with when that was confirmed here."""
        other = self.world.sites[remote].replicas[replica.name].topic
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
        expected = Status.AT_RISK if self.world.scenario.markers is not None else Status.PROTECTED
        for replica in self.world.loaded():
            assert replica.topic is not None
            for name, judged in protection_of(replica.topic).items():
                subscription = replica.topic.subscriptions[name]
                wanted = expected if subscription.is_replicated else Status.UNPROTECTED
                if judged.status is not wanted:
                    where = f"{name} of {replica.name.local_name} in {replica.cluster}"
                    return f"{where} is {judged.status}, not {wanted}: {judged.reasons[:2]}"
        return ""
