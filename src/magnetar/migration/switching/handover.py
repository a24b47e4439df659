"""How the cluster that clients enter gets the last entries and acknowledgements of a closed topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.migration.switching.fence import difference, not_carried

if TYPE_CHECKING:
    from magnetar.migration.switching.cluster import Cluster
    from magnetar.migration.switching.fence import TopicState


class Look(Protocol):
    """Looks at the closed topic in the cluster that clients leave; raises an error if its fence has ended."""

    def __call__(self, *, digests: bool = False) -> TopicState:
        """Return its state."""
        ...


class Handover(Protocol):
    """Brings what is missing, or waits until links have brought it."""

    def prepare(self, topic: str, entered: Cluster) -> None:
        """Do what takes time before an attempt closes the topic. Raises UnansweredError."""
        ...

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        """Return what the cluster that clients enter still lacks; empty: it has everything."""
        ...


class ByLinks:
    """Links and exact progress bring everything by themselves. Both clusters are of Magnetar."""

    def prepare(self, topic: str, entered: Cluster) -> None:
        """See ``Handover``: there is nothing to do."""

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        """See ``Handover``."""
        reason = not_carried(look(), entered.name)
        if reason:
            return reason
        closed = look(digests=True)
        return not_carried(closed, entered.name) or difference(closed, entered.look(topic, digests=True))


class ByDirection:
    """A handover for each of the two directions."""

    def __init__(self, forward: Handover, back: Handover, target: str) -> None:
        """Use ``forward`` for clients that enter the cluster ``target``."""
        self._forward = forward
        self._back = back
        self._target = target

    def prepare(self, topic: str, entered: Cluster) -> None:
        """See ``Handover``."""
        self._to(entered).prepare(topic, entered)

    def missing(self, topic: str, entered: Cluster, look: Look) -> str:
        """See ``Handover``."""
        return self._to(entered).missing(topic, entered, look)

    def _to(self, entered: Cluster) -> Handover:
        return self._forward if entered.name == self._target else self._back
