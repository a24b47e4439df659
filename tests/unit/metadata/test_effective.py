"""The topic's policy overrides the namespace's, which overrides the broker's."""

from __future__ import annotations

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.policies import broker_policies
from magnetar.metadata.effective import EffectivePolicies, effective
from magnetar.metadata.policies import Policies, TopicPolicies
from magnetar.metadata.policy.values import BacklogQuota
from magnetar.schema.strategy import SchemaCompatibilityStrategy

BROKER = broker_policies(BrokerConfig(ttlDurationDefaultInSeconds=30, brokerDeduplicationEnabled=True))
FULL = SchemaCompatibilityStrategy.FULL
HOLD = BacklogQuota(limitSize=10, policy="producer_request_hold")
EVICT = BacklogQuota(limitTime=10, policy="consumer_backlog_eviction")


def test_nothing_said_is_the_brokers() -> None:
    assert effective(BROKER, None, None, cluster="A") == BROKER
    assert effective(BROKER, Policies(), TopicPolicies(), cluster="A") == BROKER


def test_the_most_specific_wins() -> None:
    namespace, topic = Policies(message_ttl_in_seconds=20), TopicPolicies(messageTTLInSeconds=10)
    assert effective(BROKER, namespace, None, cluster="A").message_ttl_s == 20
    assert effective(BROKER, namespace, topic, cluster="A").message_ttl_s == 10


def test_off_and_zero_are_said() -> None:
    namespace = Policies(message_ttl_in_seconds=0, deduplicationEnabled=False)
    found = effective(BROKER, namespace, None, cluster="A")
    assert (found.message_ttl_s, found.deduplication_enabled) == (0, False)


def test_quotas_are_laid_over_each_other_by_type() -> None:
    namespace = Policies(backlog_quota_map={"destination_storage": HOLD})
    topic = TopicPolicies(backLogQuotaMap={"message_age": EVICT})
    assert effective(BROKER, namespace, topic, cluster="A").backlog_quotas == {
        "destination_storage": HOLD,
        "message_age": EVICT,
    }


def test_schemas() -> None:
    backward, forward = SchemaCompatibilityStrategy.BACKWARD, SchemaCompatibilityStrategy.FORWARD
    namespace = Policies(schema_compatibility_strategy=backward)
    assert effective(BROKER, Policies(), TopicPolicies(), cluster="A").schema_compatibility_strategy is FULL
    assert effective(BROKER, namespace, None, cluster="A").schema_compatibility_strategy is backward
    topic = TopicPolicies(schemaCompatibilityStrategy=forward)
    assert effective(BROKER, namespace, topic, cluster="A").schema_compatibility_strategy is forward
    topic = TopicPolicies(schemaCompatibilityStrategy=SchemaCompatibilityStrategy.UNDEFINED)
    assert effective(BROKER, namespace, topic, cluster="A").schema_compatibility_strategy is backward


def test_the_broker_can_restrict_schemas_in_all_topics() -> None:
    lax, strict = Policies(), Policies(schema_validation_enforced=True, is_allow_auto_update_schema=False)
    broker = broker_policies(BrokerConfig(isSchemaValidationEnforced=True, isAllowAutoUpdateSchemaEnabled=False))

    def found(broker: EffectivePolicies, namespace: Policies | None, topic: TopicPolicies | None) -> tuple[bool, bool]:
        policies = effective(broker, namespace, topic, cluster="A")
        return policies.schema_validation_enforced, policies.schema_auto_update

    assert found(BROKER, lax, None) == (False, True)
    assert found(BROKER, strict, None) == (True, False)
    assert found(BROKER, strict, TopicPolicies(schemaValidationEnforced=False)) == (False, False)
    assert found(broker, lax, TopicPolicies(schemaValidationEnforced=False)) == (True, False)
    assert found(broker, None, None) == (True, False)
