"""Statistics of links, summed over topics."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.admin.models.model import Model


@dataclass(slots=True, kw_only=True)
class LinkTotals(Model):
    """Ours. The topics of a namespace that are replicated to one cluster; members as in ``ReplicatorStats``."""

    topics: int = 0
    unknown_topics: int = 0
    """Number of these topics for which the content of the remote cluster is unknown."""
    connected_topics: int = 0
    """Number of topics whose link is carried by a pipeline, or rests."""
    parked_topics: int = 0
    """Number of topics whose link is parked."""
    msg_out_count: int = 0
    """Entries sent since each topic was loaded."""
    replication_backlog: int | None = 0
    """Entries that the remote cluster does not hold; None: unknown for at least one topic."""
    replication_delay_in_seconds: int | None = 0
    """Age of the oldest of them; None: unknown for at least one topic."""

    def add_unknown(self) -> None:
        """Add a topic of which nothing is known."""
        self.topics += 1
        self.unknown_topics += 1
        self.replication_backlog = self.replication_delay_in_seconds = None
