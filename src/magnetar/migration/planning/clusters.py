"""Findings about the two clusters and their settings. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.migration.planning.findings import Area, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.migration.planning.facts import ClusterFacts

_DEFAULTS: Final = (
    "defaultRetentionTimeInMinutes",
    "defaultRetentionSizeInMB",
    "ttlDurationDefaultInSeconds",
    "brokerDeduplicationEnabled",
    "brokerDeleteInactiveTopicsEnabled",
    "subscriptionExpirationTimeMinutes",
    "delayedDeliveryEnabled",
    "allowAutoTopicCreation",
    "allowAutoTopicCreationType",
    "allowAutoSubscriptionCreation",
    "schemaCompatibilityStrategy",
    "isAllowAutoUpdateSchemaEnabled",
    "isSchemaValidationEnforced",
    "backlogQuotaDefaultLimitBytes",
    "backlogQuotaDefaultLimitSecond",
    "maxProducersPerTopic",
    "maxConsumersPerTopic",
    "maxConsumersPerSubscription",
    "maxSubscriptionsPerTopic",
    "maxTopicsPerNamespace",
    "maxUnackedMessagesPerConsumer",
    "maxUnackedMessagesPerSubscription",
)
"""Settings that apply where neither the namespace nor the topic has the policy."""


def cluster_findings(source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    """Yield what prevents links between the clusters, and the settings that differ."""
    if source.name == target.name:
        problem = "both clusters have this name, so entries of one count as entries of the other"
        yield Finding(Severity.BLOCKER, Area.CLUSTERS, source.name, problem, "give the target a clusterName of its own")
        return
    if not target.is_magnetar:
        problem = "the target is not a cluster of Magnetar"
        yield Finding(Severity.BLOCKER, Area.CLUSTERS, target.name, problem, "name a cluster of Magnetar with --to")
    yield from _registrations(source, target)
    yield from _replication(source, target)
    yield from _size_limits(source, target)
    yield from _permissions(source, target)
    yield from _defaults(source, target)


def disk_findings(target: ClusterFacts, storage_bytes: int) -> Iterator[Finding]:
    """Yield that the free space of the target is not known, with the space that is needed."""
    yield Finding(
        Severity.NOTE,
        Area.DISK,
        target.name,
        "the free disk space is unknown, because the admin API does not have it",
        "compare the size with the disk of the target's broker",
        f"{storage_bytes:,} bytes are stored in the source",
    )


def _registrations(source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    pairs = [(target, source)]
    if source.is_magnetar:
        pairs.append((source, target))
    for here, other in pairs:
        if other.name not in here.registered:
            command = f"magnetar{here.options} clusters create {other.name} --url URL --broker-url URL"
            problem = f"{other.name} is not registered in {here.name}"
            yield Finding(Severity.BLOCKER, Area.CLUSTERS, here.name, problem, f"register it: {command}")


def _replication(source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    if not source.is_magnetar:
        problem = "Apache Pulsar does not send the acknowledgements of subscriptions while they are made"
        fix = "move each subscription with: magnetar pipeline translate --apply (guide: From Apache Pulsar)"
        yield Finding(Severity.WARNING, Area.SUBSCRIPTIONS, source.name, problem, fix)
    if source.is_magnetar and source.settings.get("replicationStartAt") == "latest":
        problem = "new links begin at the newest entry, so stored messages would not be carried"
        fix = "set replicationStartAt=earliest in the source, and restart its broker"
        yield Finding(Severity.BLOCKER, Area.CLUSTERS, source.name, problem, fix)
    for each in (source, target):
        if each.settings.get("enableReplicatedSubscriptions") == "false":
            problem = "replicated subscriptions are off in the whole cluster"
            fix = "set enableReplicatedSubscriptions=true, and restart the broker"
            yield Finding(Severity.BLOCKER, Area.SUBSCRIPTIONS, each.name, problem, fix)
        if each.settings.get("replicatedSubscriptionSync") == "markers":
            problem = (
                "progress is replicated by snapshots (markers): some messages are delivered again after the switch"
            )
            fix = "set replicatedSubscriptionSync=auto, and restart the broker"
            yield Finding(Severity.WARNING, Area.SUBSCRIPTIONS, each.name, problem, fix)


def _size_limits(source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    here, there = (each.settings.get("maxMessageSize") for each in (source, target))
    if here is None or there is None:
        problem, fix = "the maximum size of a message is unknown", "compare maxMessageSize of both clusters"
        yield Finding(Severity.WARNING, Area.CLUSTERS, (source if here is None else target).name, problem, fix)
    elif int(there) < int(here):
        problem = "messages of the source can be too large for the target, and would stop their links"
        fix = f"set maxMessageSize={here} in the target, and restart its broker"
        yield Finding(Severity.BLOCKER, Area.CLUSTERS, target.name, problem, fix, f"maxMessageSize is {there}")


def _permissions(source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    if source.settings.get("authorizationEnabled") == "true" != target.settings.get("authorizationEnabled"):
        problem = "the source checks permissions, and the target does not"
        fix = "let only trusted clients reach the ports of the target"
        yield Finding(Severity.WARNING, Area.PERMISSIONS, target.name, problem, fix)


def _defaults(source: ClusterFacts, target: ClusterFacts) -> Iterator[Finding]:
    for key in _DEFAULTS:
        here, there = source.settings.get(key), target.settings.get(key)
        if here is not None and there is not None and here != there:
            problem = "default settings differ, for namespaces and topics without the policy"
            fix = "set the policy of the namespaces, or the setting in the target"
            detail = f"{here} in {source.name}, {there} in {target.name}"
            yield Finding(Severity.WARNING, Area.POLICIES, key, problem, fix, detail)
