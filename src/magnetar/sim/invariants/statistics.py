"""Statistics: REST agrees with the model. A figure is never too low; in the liveness phase none stays unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.topic_service import StatsOptions
from magnetar.base.position import EARLIEST
from magnetar.broker.admin.stats import topic_stats_steps
from magnetar.broker.loop.slices import at_once
from magnetar.broker.replication.outbound.copies import Copied
from magnetar.sim.checks.claimed import unclaimed
from magnetar.sim.simulation import Invariant

if TYPE_CHECKING:
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.checks.topic_checks import TopicChecks
    from magnetar.sim.simulation import Simulation
    from magnetar.sim.site import Replica

EVERY = 4
"""Number of steps between two checks."""


class Statistics(Invariant):
    """See the module."""

    counted = ("replication backlog reported", "replication backlog unknown", "lost messages reported")

    def __init__(self, simulation: Simulation) -> None:
        """Observe ``simulation``."""
        super().__init__(simulation)
        self._steps = 0

    def check(self) -> None:
        """See Invariant."""
        self._steps += 1
        if self._steps % EVERY == 0:
            for replica in self.simulation.loaded():
                topic = self.simulation.checks.topics[replica.name]
                self._check_links(topic, replica)
                self._check_lost(topic, replica)

    def _check_links(self, topic: TopicChecks, replica: Replica) -> None:
        """S: a replication backlog is unknown, or not below the number of entries that the other cluster lacks."""
        assert replica.topic is not None
        model, log = topic.model, topic.model.logs[replica.cluster]
        # A loss of power may bring back entries that were trimmed while the other cluster was away.
        first = max(replica.topic.ledger.first_position, log.trimmed_before)
        own = [entry for entry in log.of.get(replica.cluster, []) if entry.position >= first]
        for remote, link in replica.topic.replicators.items():
            if model.generations[remote]:
                continue  # the link learns of the loss of the topic only when it is attached again
            backlog, ever = link.backlog, model.ever[remote]
            gone = model.custody.passed_over[remote]
            lacks = [
                entry.text
                for entry in own
                if entry.text not in ever and entry.is_for(remote) and entry.text not in gone
            ]
            self.simulation.count("replication backlog reported", bool(lacks) and backlog is not None)
            self.simulation.count("replication backlog unknown", backlog is None)
            if backlog is not None and backlog < len(lacks):
                where = f"{topic.name.local_name} in {replica.cluster}"
                self.simulation.checks.violate(
                    f"S: {where} reports a replication backlog of {backlog}, but {remote} lacks {lacks[:5]}"
                )

    def _check_lost(self, topic: TopicChecks, replica: Replica) -> None:
        """S: the number of entries that another cluster lost with its disk for good is unknown, or not too low."""
        assert replica.topic is not None
        for remote in replica.topic.replicators:
            site, life = self.simulation.sites[remote], replica.topic.progress.life_of(remote)
            if not topic.model.lost_with_disk[remote] or not site.running or life != site.store.life:
                continue  # nothing to count, or the loss of the connection is not noticed yet
            for name, subscription in replica.topic.subscriptions.items():
                told = replica.topic.progress.lost.unacknowledged(remote, subscription.cursor.state)
                lost = self._lost(topic, replica, remote, subscription)
                self.simulation.count("lost messages reported", bool(told))
                if told is not None and told < len(lost):
                    where = f"{topic.name.local_name} in {replica.cluster}"
                    self.simulation.checks.violate(
                        f"S: {where} reports {told} messages of {name} that {remote} lost, but it lost {lost[:5]}"
                    )

    def _has_skipped(self, replica: Replica, remote: str) -> bool:
        """Return whether ``replica`` skipped a damaged entry, so that its count for another cluster is unknown."""
        assert replica.topic is not None
        life = replica.topic.progress.life_of(remote)
        return life is not None and any(
            True for _ in replica.topic.replicators[remote].foreign.copies.skipped(Copied.lost(life))
        )

    def _lost(self, topic: TopicChecks, replica: Replica, remote: str, subscription: Subscription) -> list[str]:
        """Return the entries that ``remote`` published and lost with its disk and that a subscription here lacks."""
        if subscription.progress is None:
            return []
        assert replica.topic is not None
        model, first = topic.model, replica.topic.ledger.first_position
        return [
            entry.text
            for entry in model.published[remote][: model.lost_with_disk[remote]]
            if model.logs[replica.cluster].places.get(entry.text, EARLIEST) >= first
            and entry.text not in model.returned[remote]
            and topic.checker.left(replica, subscription, entry)
        ]

    def missing(self) -> str:
        """See Invariant."""
        for replica in self.simulation.loaded():
            wrong = self._wrong_in(self.simulation.checks.topics[replica.name], replica)
            if wrong:
                return f"{replica.name.local_name} in {replica.cluster}: {wrong}"
        return ""

    def _wrong_in(self, topic: TopicChecks, replica: Replica) -> str:
        assert replica.topic is not None
        stats = at_once(topic_stats_steps(replica.topic, StatsOptions()))
        for remote, link in stats.replication.items():
            if link.replication_backlog != 0 or link.replication_delay_in_seconds != 0:
                return f"the replication backlog to {remote} is {link.replication_backlog}"
        first = replica.topic.ledger.first_position
        held = [entry for at, entry in topic.model.logs[replica.cluster].entries if at >= first]
        for name, told in stats.subscriptions.items():
            subscription = replica.topic.subscriptions[name]
            if subscription.progress is None:
                continue
            left = sum(unclaimed(subscription.progress.state, entry) != 0 for entry in held)
            if told.msg_backlog != left:
                return f"{name} has a backlog of {told.msg_backlog} in its statistics, but {left} in its progress"
            for remote, count in (told.progress_lost or {}).items():
                lost = len(self._lost(topic, replica, remote, subscription))
                if count != lost and not (count is None and self._has_skipped(replica, remote)):
                    return f"{name} has {count} messages lost by {remote} in its statistics, but really {lost}"
            for remote, unconfirmed in (told.progress_unconfirmed or {}).items():
                if unconfirmed != 0:
                    return f"{name} has {unconfirmed} acknowledgements that {remote} has not confirmed"
        return ""
