"""What would happen to a subscription if this cluster were lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.admin.models.model import Model


@dataclass(slots=True, kw_only=True)
class ClusterProtection(Model):
    """Ours. How well off a subscription is towards one other cluster."""

    status: str
    """``protected``, ``at risk`` or ``unprotected``."""
    since: str
    since_at_least: bool = False
    """Whether it may have been so for longer: what was before the broker started is not known."""
    reasons: list[str] = field(default_factory=list)
    unconfirmed_acknowledgements: int | None = None
    """Entries acknowledged here that the cluster has not confirmed; None: that is not known."""
    unreplicated_messages: int | None = None
    """Entries published here that the cluster has not confirmed."""
    lost_messages: int | None = None
    """Entries that the cluster published before it lost its data, and that this cluster holds and the subscription has
    not acknowledged, until they are sent back. None while it is not known in which life the cluster is."""


@dataclass(slots=True, kw_only=True)
class SubscriptionProtection(Model):
    """Ours. How well off a subscription is: as towards the cluster that it is worst off towards."""

    status: str
    since: str
    since_at_least: bool = False
    reasons: list[str] = field(default_factory=list)
    clusters: dict[str, ClusterProtection] = field(default_factory=dict)
