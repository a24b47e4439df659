"""The policies of the event topic of the metadata synchronizer."""

from __future__ import annotations

from magnetar.base.names import TopicName
from magnetar.metadata.policies import Policies, TopicPolicies
from magnetar.metadata.policy.values import BacklogQuota, InactiveTopicPolicies, PublishRate, RetentionPolicies
from magnetar.sim.cluster import NAMESPACE, TOPIC, Cluster

QUOTA = BacklogQuota(limitSize=1, limitTime=1, policy="consumer_backlog_eviction")
SETTINGS = {
    "metadataSyncEventTopic": str(TOPIC),
    "ttlDurationDefaultInSeconds": 1,
    "backlogQuotaDefaultLimitBytes": 1,
    "replicateSubscriptionState": True,
    "subscriptionExpirationTimeMinutes": 1,
    "brokerDeleteInactiveTopicsEnabled": True,
}


def cluster() -> Cluster:
    """A cluster in which settings, the namespace and the topic limit the topic."""
    found = Cluster(settings=SETTINGS)
    limits = Policies(
        replication_clusters=["ewr"],
        message_ttl_in_seconds=1,
        backlog_quota_map={"destination_storage": QUOTA, "message_age": QUOTA},
        publishMaxMessageRate={"ewr": PublishRate(publishThrottlingRateInMsg=1)},
        inactive_topic_policies=InactiveTopicPolicies(deleteWhileInactive=True),
        retention_policies=RetentionPolicies(retentionTimeInMinutes=7, retentionSizeInMB=7),
        max_producers_per_topic=1,
        replicate_subscription_state=True,
        replicated_subscriptions_allowed=True,
        deduplicationEnabled=True,
        subscription_expiration_time_minutes=1,
    )
    found.do(lambda: found.resources.namespaces.update(NAMESPACE, lambda _: limits))
    own = TopicPolicies(
        messageTTLInSeconds=1,
        backLogQuotaMap={"destination_storage": QUOTA},
        publishRate=PublishRate(publishThrottlingRateInMsg=1),
        maxProducerPerTopic=1,
        replicateSubscriptionState=True,
    )
    found.do(lambda: found.resources.topic_policies.create(TOPIC, own))
    return found


def test_nothing_limits_the_event_topic() -> None:
    found = cluster().environment.policies.of(TOPIC)
    assert found.message_ttl_s == 0
    assert {quota.limitSize for quota in found.backlog_quotas.values()} == {-1}
    assert {quota.limitTime for quota in found.backlog_quotas.values()} == {-1}
    assert found.publish_rate == PublishRate()
    assert not found.inactive_topics.deleteWhileInactive
    assert (found.max_producers, found.max_subscriptions, found.max_consumers, found.max_topics) == (0, 0, 0, 0)
    assert found.subscription_expiration_minutes == 0
    assert not found.deduplication_enabled


def test_its_subscription_is_not_replicated() -> None:
    found = cluster().environment.policies.of(TOPIC)
    assert (found.replicate_subscription_state, found.replicated_subscriptions_allowed) == (False, False)


def test_its_events_may_be_retained_for_longer() -> None:
    assert cluster().environment.policies.of(TOPIC).retention.retentionTimeInMinutes == 7


def test_other_topics_keep_their_policies() -> None:
    found = cluster().environment.policies.of(TopicName.parse("persistent://public/default/other"))
    assert (found.message_ttl_s, found.max_producers, found.replicate_subscription_state) == (1, 1, True)


def test_events_outlive_every_limit() -> None:
    found = cluster()
    client = found.client()
    client.subscribe()
    client.produce()
    client.send("event")
    found.loop.advance(3600)
    topic = found.topic()
    found.do(lambda: list(topic.backlog_quotas.enforcement(found.clock.now(), by_age=True)))
    assert found.subscription().backlog == 1
    client.produce(producer_id=2, name="another")
    assert client.take("ERROR") == []
