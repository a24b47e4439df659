"""The effective policies of the topics of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from magnetar.broker.settings.policies import broker_policies, event_topic_policies
from magnetar.metadata.effective import EffectivePolicies, effective

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.metadata.resources import Resources


class PoliciesOfTopics:
    """Merges the policies of the broker, of the namespace and of the topic.

    Most topics have no policies of their own. Those of a namespace share one object: it takes some 6 KB, and the rest
    of a loaded topic some 11 KB.
    """

    def __init__(self, config: BrokerConfig, resources: Resources) -> None:
        """Create it; ``config`` and ``resources`` have the three levels."""
        self._resources = resources
        self._of_namespaces: WeakValueDictionary[NamespaceName, EffectivePolicies] = WeakValueDictionary()
        """The last policies of topics without their own, while a topic uses them."""
        self.reconfigure(config)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Use other values of dynamic settings from now on."""
        self._config = config
        self._broker = broker_policies(config)

    def of(self, topic: TopicName) -> EffectivePolicies:
        """Return the current policies of a topic."""
        namespace = self._resources.namespaces.get(topic.namespace_name)
        own = self._resources.topic_policies.get(topic)
        found = effective(self._broker, namespace, own, cluster=self._config.clusterName)
        if str(topic) == self._config.metadataSyncEventTopic:
            return event_topic_policies(found, self._config)
        return found if own is not None else self._shared(topic.namespace_name, found)

    def _shared(self, namespace: NamespaceName, found: EffectivePolicies) -> EffectivePolicies:
        known = self._of_namespaces.get(namespace)
        if known == found:
            return known
        self._of_namespaces[namespace] = found
        return found
