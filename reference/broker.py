"""A broker in memory, as the source of the REST and metrics pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.admin.administration import Administration
from magnetar.sim.cluster import Cluster

if TYPE_CHECKING:
    from magnetar.metadata.resources import Resources


def administration() -> tuple[Administration, Resources]:
    """Return the administration of a new broker without topics, and its metadata."""
    cluster = Cluster()
    return Administration(cluster.environment, cluster.domains, ""), cluster.resources
