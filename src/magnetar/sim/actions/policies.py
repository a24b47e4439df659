"""Policies: changes of retention, TTL, quotas, deduplication and the active cluster, and their enforcement."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.metadata.policy.values import BacklogQuota, RetentionPolicies
from magnetar.sim.simulation import Action, ActionGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from magnetar.metadata.policies import Policies as Document
    from magnetar.sim.site import Site

TTL_S = (1, 10)
"""Bounds of a TTL in seconds, inclusive."""

LIMIT_BYTES = (200, 4000)
"""Bounds of a quota by size."""

RETENTIONS = ((0, 0), (1, -1), (1, 1), (-1, 1), (-1, -1))
"""Minutes and MiB."""

APPLIED_S = (0.0, 1.0)
"""Virtual seconds until a policy change reaches a cluster."""


class Policies(ActionGroup):
    """See the module."""

    name = "policies"
    share = 0.4
    counted = ("message expired by TTL", "message evicted")

    def actions(self) -> Iterable[Action]:
        """See ActionGroup."""
        return (
            Action("TTL changed", 1, self._change_ttl),
            Action("retention changed", 1.5, self._change_retention),
            Action("quota changed", 0.8, self._change_quota),
            Action("deduplication switched", 0.3, self._switch_deduplication),
            Action("active cluster changed", 0.4, self._change_active_cluster),
            Action("maintenance expires", 4, self._expire),
            Action("maintenance checks backlogs", 3, self._check_backlogs),
        )

    def heal(self) -> None:
        """Remove policies that prevent publishing, consuming or trimming."""

        def lift(policies: Document) -> None:
            policies.backlog_quota_map = {}
            policies.message_ttl_in_seconds = policies.retention_policies = None
            policies.replicated_subscription_active_cluster = None

        if self.simulation.scenario.weight(self.name):
            for site in self.simulation.sites.values():
                site.change_policies(lift)

    def _change(self, change: Callable[[Document], None]) -> bool:
        """Change the policies of each cluster after its own delay."""
        for site in self.simulation.sites.values():
            self.simulation.later(self.chance.uniform(*APPLIED_S), partial(self._change_in, site, change))
        return True

    def _change_in(self, site: Site, change: Callable[[Document], None]) -> None:
        if not self.simulation.is_healed:
            site.change_policies(change)

    def _change_ttl(self) -> bool:
        seconds = self.chance.choice((None, self.chance.randint(*TTL_S), self.chance.randint(*TTL_S)))
        self.simulation.note("", f"TTL {seconds} s")
        return self._change(lambda policies: setattr(policies, "message_ttl_in_seconds", seconds))

    def _change_retention(self) -> bool:
        minutes, size_mb = self.chance.choice(RETENTIONS)
        self.simulation.note("", f"retention {minutes} min, {size_mb} MiB")
        retention = RetentionPolicies(retentionTimeInMinutes=minutes, retentionSizeInMB=size_mb)
        return self._change(lambda policies: setattr(policies, "retention_policies", retention))

    def _change_quota(self) -> bool:
        policy = self.chance.choice(("producer_request_hold", "producer_exception", "consumer_backlog_eviction"))
        if self.chance.random() < 0.6:
            quotas = {"destination_storage": BacklogQuota(limitSize=self.chance.randint(*LIMIT_BYTES), policy=policy)}
        else:
            quotas = {"message_age": BacklogQuota(limitTime=self.chance.randint(*TTL_S), policy=policy)}
        self.simulation.note("", f"quota {quotas}")
        return self._change(lambda policies: setattr(policies, "backlog_quota_map", quotas))

    def _switch_deduplication(self) -> bool:
        enabled = self.chance.random() < 0.5
        self.simulation.note("", f"deduplication {'on' if enabled else 'off'}")
        for topic in self.simulation.checks.topics.values():
            topic.checker.forgive_duplicates()
        return self._change(lambda policies: setattr(policies, "deduplicationEnabled", enabled))

    def _change_active_cluster(self) -> bool:
        cluster = self.chance.choice((None, *self.simulation.sites))
        self.simulation.note("", f"active cluster {cluster}")
        return self._change(lambda policies: setattr(policies, "replicated_subscription_active_cluster", cluster))

    def _expire(self) -> bool:
        return self._do(self._expire_in)

    def _check_backlogs(self) -> bool:
        return self._do(self._check_backlogs_in)

    def _do(self, work: Callable[[Site], Coroutine[Any, Any, None]]) -> bool:
        running = self.simulation.running()
        if running:
            site = self.chance.choice(running)
            site.loop.create_task(work(site))
        return bool(running)

    async def _expire_in(self, site: Site) -> None:
        for replica in site.replicas.values():
            topic = replica.topic
            if topic is not None and topic.policies.message_ttl_s:
                self.simulation.checks.topics[replica.name].operations.expires(replica, topic.policies.message_ttl_s)
        before = _expired(site)
        await site.maintenance.expire()
        self.simulation.count("message expired by TTL", _expired(site) - before)

    async def _check_backlogs_in(self, site: Site) -> None:
        for replica in site.replicas.values():
            topic = replica.topic
            for quota in topic.policies.backlog_quotas.values() if topic is not None else ():
                if quota.policy == "consumer_backlog_eviction":
                    checks = self.simulation.checks.topics[replica.name]
                    if quota.limitTime > 0:
                        checks.operations.expires(
                            replica, quota.limitTime - 1e-9
                        )  # an entry of exactly the limit's age expires
                    if quota.limitSize > 0:
                        checks.operations.evicts(replica, quota.limitSize)
        before = _expired(site)
        await site.maintenance.check_backlogs()
        self.simulation.count("message evicted", _expired(site) - before)


def _expired(site: Site) -> int:
    topics = site.topics.loaded.values()
    return sum(subscription.expired for topic in topics for subscription in topic.subscriptions.values())
