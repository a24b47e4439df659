"""The topic's policy overrides the namespace's, which overrides the broker's."""

from __future__ import annotations

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.policies import broker_policies
from magnetar.metadata.effective import effective
from magnetar.metadata.policies import BacklogQuota, Policies, TopicPolicies

BROKER = broker_policies(BrokerConfig(ttlDurationDefaultInSeconds=30, brokerDeduplicationEnabled=True))
HOLD = BacklogQuota(limitSize=10, policy="producer_request_hold")
EVICT = BacklogQuota(limitTime=10, policy="consumer_backlog_eviction")


def test_nothing_said_is_the_brokers() -> None:
    assert effective(BROKER, None, None) == BROKER
    assert effective(BROKER, Policies(), TopicPolicies()) == BROKER


def test_the_most_specific_wins() -> None:
    namespace, topic = Policies(message_ttl_in_seconds=20), TopicPolicies(messageTTLInSeconds=10)
    assert effective(BROKER, namespace, None).message_ttl_s == 20
    assert effective(BROKER, namespace, topic).message_ttl_s == 10


def test_off_and_zero_are_said() -> None:
    namespace = Policies(message_ttl_in_seconds=0, deduplicationEnabled=False)
    found = effective(BROKER, namespace, None)
    assert (found.message_ttl_s, found.deduplication_enabled) == (0, False)


def test_quotas_are_laid_over_each_other_by_type() -> None:
    namespace = Policies(backlog_quota_map={"destination_storage": HOLD})
    topic = TopicPolicies(backLogQuotaMap={"message_age": EVICT})
    assert effective(BROKER, namespace, topic).backlog_quotas == {"destination_storage": HOLD, "message_age": EVICT}
