"""The custody of entries of clusters that have left a namespace (ADR 40)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.broker.log.interfaces import AnyTopic


def is_custodian(topic: AnyTopic, custodian: str, origin: str) -> bool:
    """Return whether ``custodian`` keeps the entries of ``origin``, also when that has returned.

    Then it sends them back, if ``origin`` has deleted them with its topic.
    """
    return topic.policies.custody.get(origin) == custodian


def custodians_of(topic: AnyTopic) -> Mapping[str, str]:
    """Return, by the policy ``custody``, the cluster that carries the entries of each cluster that has left.

    A cluster that the topic is replicated to carries its own entries, whatever the policy says.
    """
    custody = topic.policies.custody
    if not custody:
        return custody
    members = {topic.environment.cluster, *topic.environment.targets_of_topic(topic.name)}
    return {
        origin: custodian for origin, custodian in custody.items() if origin not in members and custodian in members
    }


def may_carry(topic: AnyTopic, source: str, origin: str) -> bool:
    """Return whether a link from ``source`` carries entries of ``origin``: its own, or those in its custody."""
    return origin == source or custodians_of(topic).get(origin) == source
