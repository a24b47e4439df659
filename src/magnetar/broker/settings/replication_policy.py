"""Whose subscriptions are replicated, beyond what clients ask for (PIP-398), and whose may not be.

The broker's switch ``enableReplicatedSubscriptions=false`` forbids for all; the policy of a namespace or topic for its
own. While replication is forbidden nothing is sent and nothing is taken. A subscription that was replicated keeps its
state, so it goes on from where it is once that is allowed again: nothing is lost and nothing comes twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.metadata.effective import EffectivePolicies


def reason_against(config: BrokerConfig, policies: EffectivePolicies) -> str:
    """Why no subscription that follows ``policies`` may be replicated; empty where they may."""
    cluster = config.clusterName
    if not config.enableReplicatedSubscriptions:
        return f"replicated subscriptions are off in {cluster}: enableReplicatedSubscriptions=false"
    if not policies.replicated_subscriptions_allowed:
        return f"replicated subscriptions are forbidden in {cluster}: replicatedSubscriptionsAllowed is false"
    return ""


def is_imposed(config: BrokerConfig, policies: EffectivePolicies) -> bool:
    """Whether every durable subscription that follows ``policies`` is replicated, whoever asked for it."""
    return policies.replicate_subscription_state and not reason_against(config, policies)
