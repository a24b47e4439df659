"""Findings about one topic, or one partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.migration.planning.findings import Area, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.migration.planning.facts import ClusterFacts, PolicyFacts, TopicFacts

_SIZE, _AGE = "destination_storage", "message_age"
_EVICTION: Final = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class TopicChecks:
    """Compares the topics of the source with the target."""

    source: ClusterFacts
    target: ClusterFacts
    policies: PolicyFacts
    """Those of the source, which the target will have."""

    def findings(self, topic: TopicFacts, in_target: TopicFacts | None) -> Iterator[Finding]:
        """Yield the findings about a topic; ``in_target``: None: the target does not have it."""
        if in_target is not None and not self._is_linked(topic):
            yield from self._clash(topic, in_target)
        yield from self._subscriptions(topic)
        yield from self._quotas(topic)
        yield from self._content(topic)
        if topic.link is not None and topic.link.parked is not None:
            problem = "the link to the target is parked, so it carries nothing now"
            fix = "remove the reason; the pipeline tries again by itself"
            yield self._finding(Severity.BLOCKER, Area.TOPICS, topic, problem, fix, topic.link.parked)

    def _is_linked(self, topic: TopicFacts) -> bool:
        return {self.source.name, self.target.name} <= set(self.policies.clusters(topic.owner))

    def _clash(self, topic: TopicFacts, in_target: TopicFacts) -> Iterator[Finding]:
        if in_target.storage_bytes:
            problem = "the target has a topic of this name with messages, which is not replicated with the source"
            fix = f"delete the topic of the target, if it is not needed: magnetar{self.target.options} topics delete"
            detail = f"{in_target.storage_bytes:,} bytes"
            yield self._finding(Severity.BLOCKER, Area.NAMES, topic, problem, fix, detail)
            return
        both = {each.name for each in topic.subscriptions} & {each.name for each in in_target.subscriptions}
        if both:
            problem = "the topic of the target has subscriptions of the same name, with which progress is merged"
            fix = f"delete them, if they are not needed: magnetar{self.target.options} topics unsubscribe"
            yield self._finding(Severity.WARNING, Area.NAMES, topic, problem, fix, ", ".join(sorted(both)))

    def _subscriptions(self, topic: TopicFacts) -> Iterator[Finding]:
        durable = [each for each in topic.subscriptions if each.is_durable]
        readers = len(topic.subscriptions) - len(durable)
        if readers:
            problem = "readers have no stored position: their start positions are those of the source"
            fix = "let each reader choose its start in the target by time, or by a message of its own"
            yield self._finding(Severity.WARNING, Area.CLIENTS, topic, problem, fix, f"readers: {readers}")
        if not durable or not self.source.is_magnetar:
            return
        allowed = ("replicated_subscriptions_allowed", "replicatedSubscriptionsAllowed")
        if self.policies.of(topic.owner, *allowed) is False:
            problem = "the policy replicatedSubscriptionsAllowed forbids the replication of subscriptions"
            fix = "allow it: magnetar namespaces set-replicated-subscriptions-allowed OWNER --allowed true"
            yield self._finding(Severity.BLOCKER, Area.SUBSCRIPTIONS, topic, problem, fix)
        if self.policies.of(topic.owner, "replicated_subscription_sync", "replicatedSubscriptionSync") == "markers":
            problem = "the policy replicatedSubscriptionSync is markers: some messages are delivered again"
            fix = "use exact progress: magnetar namespaces remove-replicated-subscription-sync OWNER"
            yield self._finding(Severity.WARNING, Area.SUBSCRIPTIONS, topic, problem, fix)
        active = ("replicated_subscription_active_cluster", "replicatedSubscriptionActiveCluster")
        if self.policies.of(topic.owner, *active):
            problem = "the policy replicatedSubscriptionActiveCluster admits consumers in one cluster only"
            fix = "set the target in both clusters when the consumers move (guide: Failover and failback)"
            yield self._finding(Severity.WARNING, Area.SUBSCRIPTIONS, topic, problem, fix)
        for each in durable:
            if self.target.name in each.unavailable:
                problem = "the target cannot have exact progress of this subscription"
                fix = "remove the reason"
                detail = f"{each.name}: {each.unavailable[self.target.name]}"
                yield self._finding(Severity.WARNING, Area.SUBSCRIPTIONS, topic, problem, fix, detail)
        single = [each.name for each in durable if not each.is_replicated]
        if single:
            problem = "subscriptions are not replicated; they will be until the end of the migration"
            yield self._finding(Severity.NOTE, Area.SUBSCRIPTIONS, topic, problem, "none is needed", ", ".join(single))

    def _quotas(self, topic: TopicFacts) -> Iterator[Finding]:
        for kind, field, backlog, unit in (
            (_SIZE, "limitSize", topic.backlog_bytes, "bytes"),
            (_AGE, "limitTime", topic.backlog_age_s, "s"),
        ):
            quota = self.policies.quota(topic.owner, kind)
            if quota is None:
                limit, action = self._default_quota(kind)
            else:
                limit, action = quota.get(field), quota["policy"]
            if backlog is None or limit is None or limit <= 0 or backlog <= limit:
                continue
            evicts = action == _EVICTION
            effect = "messages would be acknowledged there" if evicts else "producers would be refused there"
            problem = f"the backlog exceeds the quota ({kind}) that the topic will have in the target: {effect}"
            fix = "let the consumers work off the backlog, or raise the quota: magnetar namespaces set-backlog-quota"
            severity = Severity.BLOCKER if evicts else Severity.WARNING
            detail = f"{backlog:,} {unit}, the quota is {limit:,} {unit}"
            yield self._finding(severity, Area.QUOTAS, topic, problem, fix, detail)

    def _default_quota(self, kind: str) -> tuple[int | None, str | None]:
        key = "backlogQuotaDefaultLimitBytes" if kind == _SIZE else "backlogQuotaDefaultLimitSecond"
        limit = self.target.settings.get(key)
        return None if limit is None else int(limit), self.target.settings.get("backlogQuotaDefaultRetentionPolicy")

    def _content(self, topic: TopicFacts) -> Iterator[Finding]:
        if topic.open_transactions:
            problem = "transactions are open, which Magnetar does not support"
            fix = "end the transactions, and let the producers publish without them"
            detail = f"{topic.open_transactions:,} transactions"
            yield self._finding(Severity.BLOCKER, Area.TOPICS, topic, problem, fix, detail)
        if topic.is_compacted:
            problem = "the topic is compacted: in the target, readers get every message (ADR 29)"
            yield self._finding(
                Severity.WARNING, Area.TOPICS, topic, problem, "let readers keep the newest of each key"
            )
        if topic.exclusive_producers:
            problem = "exclusive producers get new epochs in the target"
            fix = "none is needed: each of them attaches again"
            yield self._finding(Severity.NOTE, Area.CLIENTS, topic, problem, fix)

    @staticmethod
    def _finding(
        severity: Severity, area: Area, topic: TopicFacts, problem: str, fix: str, detail: str = ""
    ) -> Finding:
        return Finding(severity, area, str(topic.topic), problem, fix, detail)
