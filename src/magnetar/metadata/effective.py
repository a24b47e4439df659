"""Which policies hold for a topic: its own, else its namespace's, else the broker's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.metadata.policies import (
        BacklogQuota,
        BacklogQuotaType,
        DelayedDeliveryPolicies,
        Policies,
        RetentionPolicies,
        TopicPolicies,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicies:
    """What a topic follows; the broker's own are the lowest level."""

    retention: RetentionPolicies
    message_ttl_s: int
    """Seconds after which a message is acknowledged for everybody; 0 is never."""
    backlog_quotas: Mapping[BacklogQuotaType, BacklogQuota]
    deduplication_enabled: bool
    deduplication_snapshot_interval_s: int
    """Seconds after which a snapshot is due, however few entries there were; 0 leaves it to their number."""
    delayed_delivery: DelayedDeliveryPolicies
    pause_on_ack_state: bool
    """``dispatcherPauseOnAckStatePersistentEnabled`` (PIP-299)."""

    @property
    def delayed_delivery_enabled(self) -> bool:
        """Whether ``deliver_at_time`` is honoured."""
        return self.delayed_delivery.active

    @property
    def delayed_delivery_tick_s(self) -> float:
        """How far apart two looks for due messages may be."""
        return self.delayed_delivery.tickTime / 1000

    @property
    def delayed_delivery_max_delay_ms(self) -> int:
        """How far ahead a message's time may lie; 0 is any."""
        return self.delayed_delivery.maxDeliveryDelayInMillis


def effective(broker: EffectivePolicies, namespace: Policies | None, topic: TopicPolicies | None) -> EffectivePolicies:
    """Lay the levels over each other; a level that is missing sets nothing."""
    found = broker
    if namespace is not None:
        found = _over(
            found,
            retention=namespace.retention_policies,
            message_ttl_s=namespace.message_ttl_in_seconds,
            backlog_quotas=namespace.backlog_quota_map,
            deduplication_enabled=namespace.deduplicationEnabled,
            deduplication_snapshot_interval_s=namespace.deduplicationSnapshotIntervalSeconds,
            delayed_delivery=namespace.delayed_delivery_policies,
            pause_on_ack_state=namespace.dispatcherPauseOnAckStatePersistentEnabled,
        )
    if topic is not None:
        found = _over(
            found,
            retention=topic.retentionPolicies,
            message_ttl_s=topic.messageTTLInSeconds,
            backlog_quotas=topic.backLogQuotaMap,
            deduplication_enabled=topic.deduplicationEnabled,
            deduplication_snapshot_interval_s=topic.deduplicationSnapshotIntervalSeconds,
            delayed_delivery=topic.delayedDeliveryPolicies,
            pause_on_ack_state=topic.dispatcherPauseOnAckStatePersistentEnabled,
        )
    return found


def _over(
    lower: EffectivePolicies,
    *,
    backlog_quotas: Mapping[BacklogQuotaType, BacklogQuota],
    **fields: Any,  # noqa: ANN401
) -> EffectivePolicies:
    """Set the fields that are not None; quotas are set type by type."""
    given = {name: value for name, value in fields.items() if value is not None}
    return replace(lower, backlog_quotas={**lower.backlog_quotas, **backlog_quotas}, **given)
