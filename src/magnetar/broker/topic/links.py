"""The links of one topic to the other clusters of its namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import RequestError, ServerError
from magnetar.broker.replication.outbound.replicator import ReplicatedTopic, Replicator
from magnetar.wire.links import REPLICATOR_PREFIX, link_subscription

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, ValuesView

    from magnetar.base.position import Position
    from magnetar.cursor.store import CursorStore


class LinkingTopic(ReplicatedTopic, Protocol):
    """The replicated topic."""

    @property
    def cursors(self) -> CursorStore:
        """The store of the cursors."""
        ...


class TopicLinks(Mapping[str, Replicator]):
    """The links, by target cluster. Used on the event loop's thread."""

    def __init__(self, topic: LinkingTopic) -> None:
        """Create the links; there are none before ``follow``."""
        self._topic = topic
        self._by_target: dict[str, Replicator] = {}

    def __getitem__(self, target: str) -> Replicator:
        """Return the link to a cluster; raises KeyError."""
        return self._by_target[target]

    def __iter__(self) -> Iterator[str]:
        """The clusters."""
        return iter(self._by_target)

    def __len__(self) -> int:
        """Return the number of links."""
        return len(self._by_target)

    def values(self) -> ValuesView[Replicator]:
        """The links."""
        return self._by_target.values()  # called for each entry

    def to(self, target: str) -> Replicator:
        """Return the link to ``target``; raises RequestError if the namespace does not replicate there."""
        replicator = self._by_target.get(target)
        if replicator is None:
            name = self._topic.name
            message = f"{name} is not replicated to {target}: the replication clusters of its namespace, or its own,"
            message += " do not have it"
            raise RequestError(ServerError.SubscriptionNotFound, message)
        return replicator

    def follow(self, targets: Collection[str]) -> None:
        """Create and remove links, so that there is one to each of ``targets`` and to no other cluster.

        The others follow a change of the policy ``custody``.
        """
        links, cursors = self._by_target, self._topic.cursors
        for target in [target for target in links if target not in targets]:
            links.pop(target).close()
        for name in cursors.names(lambda name: name.startswith(REPLICATOR_PREFIX)):
            if name.removeprefix(REPLICATOR_PREFIX) not in targets:
                cursors.delete(name)
        for link in links.values():
            link.foreign.changed()
        for target in targets:
            if target not in links:
                name = link_subscription(target)
                cursor = cursors.open(name) or cursors.create(name, self._start())
                cursor.flush(lambda _: None)
                links[target] = Replicator(self._topic, target, cursor)

    def _start(self) -> Position:
        """Return the position after which a new link begins."""
        if self._topic.environment.config.replicationStartAt == "latest":
            return self._topic.ledger.last_confirmed_entry
        return self._topic.log.before_first()
