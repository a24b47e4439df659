"""Policies of replicated subscriptions, beyond the requests of clients (PIP-398).

The setting ``enableReplicatedSubscriptions=false`` forbids them in the whole cluster, and the policy of a namespace or
topic forbids them there. While replication is forbidden, no progress is sent or accepted. A replicated subscription
keeps its state and continues from it once replication is allowed again: nothing is lost and nothing is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.metadata.effective import EffectivePolicies


def reason_against(config: BrokerConfig, policies: EffectivePolicies) -> str:
    """Return why subscriptions with ``policies`` may not be replicated; empty if they may."""
    cluster = config.clusterName
    if not config.enableReplicatedSubscriptions:
        return f"replicated subscriptions are off in {cluster}: enableReplicatedSubscriptions=false"
    if not policies.replicated_subscriptions_allowed:
        return f"replicated subscriptions are forbidden in {cluster}: replicatedSubscriptionsAllowed is false"
    return ""


def is_imposed(config: BrokerConfig, policies: EffectivePolicies) -> bool:
    """Return whether every durable subscription with ``policies`` is replicated, even if no client asked for it."""
    return policies.replicate_subscription_state and not reason_against(config, policies)
