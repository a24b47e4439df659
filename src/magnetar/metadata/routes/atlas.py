"""Routes as the admin API shows them. Pure."""

from __future__ import annotations

from magnetar.metadata.policies import ClusterData
from magnetar.metadata.policy.document import Document


class RouteOfScope(Document):
    """A route, as the admin API shows it."""

    scope: str
    cluster: str | None = None
    """None: the route was deleted, which is shown on request only."""
    epoch: int


class Atlas(Document):
    """All that a lookup service needs to know from a broker."""

    cluster: str
    """The cluster of the broker."""
    version: str
    """A text that is equal for equal content only."""
    routes: dict[str, dict[str, str | int]]
    """The routes by scope, with the deleted ones."""
    clusters: dict[str, ClusterData]
    """The addresses of the clusters that are registered with the broker."""
