"""Protection of a subscription against the loss of this cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.admin.models.model import Model


@dataclass(slots=True, kw_only=True)
class ClusterProtection(Model):
    """Ours. Protection of a subscription in one other cluster."""

    status: str
    """``protected``, ``at risk`` or ``unprotected``."""
    since: str
    since_at_least: bool = False
    """True if ``since`` is a lower bound, because the broker does not know the status before its start."""
    reasons: list[str] = field(default_factory=list)
    unconfirmed_acknowledgements: int | None = None
    """Entries acknowledged here that the cluster has not confirmed; None: unknown."""
    unreplicated_messages: int | None = None
    """Entries published here that the cluster has not confirmed."""
    lost_messages: int | None = None
    """Entries that the cluster published and lost with its data, that are held here, that the subscription has not
    acknowledged, and that were not sent back yet. None: the life of the cluster is unknown."""


@dataclass(slots=True, kw_only=True)
class SubscriptionProtection(Model):
    """Ours. Protection of a subscription: that of the cluster with the worst status."""

    status: str
    since: str
    since_at_least: bool = False
    reasons: list[str] = field(default_factory=list)
    clusters: dict[str, ClusterProtection] = field(default_factory=dict)
