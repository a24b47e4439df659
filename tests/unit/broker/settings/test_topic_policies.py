from __future__ import annotations

import gc
import weakref

from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata.policies import TopicPolicies
from magnetar.sim.cluster import Cluster

ONE, OTHER = (TopicName.parse(f"persistent://public/default/{name}") for name in ("one", "other"))
NAMESPACE = ONE.namespace_name


def set_ttl(cluster: Cluster, seconds: int) -> None:
    changed = {"message_ttl_in_seconds": seconds}
    cluster.do(lambda: cluster.resources.namespaces.update(NAMESPACE, lambda found: found.model_copy(update=changed)))


def test_topics_without_their_own_policies_share_those_of_the_namespace() -> None:
    policies = Cluster().environment.policies
    first = policies.of(ONE)
    assert policies.of(OTHER) is first


def test_topics_share_the_new_policies_after_a_change() -> None:
    cluster = Cluster()
    policies = cluster.environment.policies
    before = policies.of(ONE)
    set_ttl(cluster, 7)
    after = policies.of(ONE)
    assert (before.message_ttl_s, after.message_ttl_s) == (0, 7)
    assert policies.of(OTHER) is after


def test_the_policies_of_one_topic_concern_no_other() -> None:
    cluster = Cluster()
    policies = cluster.environment.policies
    shared = policies.of(ONE)
    cluster.do(lambda: cluster.resources.topic_policies.create(OTHER, TopicPolicies(messageTTLInSeconds=5)))
    assert policies.of(OTHER).message_ttl_s == 5
    assert policies.of(ONE) is shared


def test_dynamic_settings_apply_to_further_topics() -> None:
    environment = Cluster().environment
    before = environment.policies.of(ONE)
    environment.reconfigure(environment.config.model_copy(update={"allowAutoTopicCreation": False}))
    assert before.auto_topic_creation.allowAutoTopicCreation
    assert not environment.policies.of(ONE).auto_topic_creation.allowAutoTopicCreation


def test_the_policies_of_namespaces_without_topics_are_forgotten() -> None:
    cluster = Cluster()
    known = weakref.ref(cluster.environment.policies.of(TopicName.parse(f"persistent://{NamespaceName('a', 'b')}/t")))
    gc.collect()
    assert known() is None
