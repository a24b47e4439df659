"""Entries that another cluster published and lost with its data, and that this cluster still holds.

Until a link has sent them back (broker/replication/outbound/copies.py), subscriptions that have not acknowledged them
do not get them in the cluster that lost them. Their positions identify them: the ledger ids of a cluster are not below
the first one of its life (ADR 13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyroaring import BitMap

from magnetar.base.position import EARLIEST, Position
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.loop.slices import Slice
from magnetar.broker.replication.outbound.copies import Copied, Lives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from magnetar.base.life import Life
    from magnetar.broker.replication.outbound.foreign_entries import ForeignEntries
    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins.index import OriginIndex


class LostOf:
    """The held entries of one cluster's earlier lives, one bitmap for each ledger of this log that has any.

    They take at most 2 bytes per entry, and are removed with their ledgers.
    """

    def __init__(self, index: OriginIndex, cluster: str, life: Life) -> None:
        """Prepare the search for entries that ``cluster`` published before ``life``; `search` does it."""
        self.life = life
        self._index = index
        self._cluster = cluster
        self._through = EARLIEST
        """Position up to which all extents are searched."""
        self._ledgers: dict[int, BitMap] = {}

    @property
    def newest(self) -> Position | None:
        """Local position of the newest of these entries; None if there is none."""
        return self._index.newest_through(self._cluster, Position(self.life.first_ledger_id, -1))

    def search(self, is_over: Callable[[], bool]) -> bool:
        """Search extents until ``is_over``, which is called after each; return whether all are searched."""
        newest = self.newest
        if newest is None or newest <= self._through:
            return True
        for extent in self._index.own_extents(self._through, newest, self._cluster):
            ledger_id, first = extent.local_first
            self._ledgers.setdefault(ledger_id, BitMap()).add_range(first, first + extent.count)
            self._through = extent.local_last
            if is_over():
                break
        return self._through >= newest

    def trim(self, first_ledger_id: int, returned: Position) -> None:
        """Remove the entries of ledgers below this one, and those up to ``returned``."""
        for ledger_id in [each for each in self._ledgers if each < max(first_ledger_id, returned.ledger_id)]:
            del self._ledgers[ledger_id]
        entries = self._ledgers.get(returned.ledger_id)
        if entries is not None:
            entries.remove_range(0, returned.entry_id + 1)

    def unacknowledged(self, state: CursorState) -> int:
        """Return the number of unacknowledged entries, including partly acknowledged ones."""
        return sum(state.undeleted_among(ledger_id, entries) for ledger_id, entries in self._ledgers.items())


class ReturningLink(Protocol):
    """A link that returns the lost entries of its target."""

    @property
    def foreign(self) -> ForeignEntries:
        """Entries of other clusters on the link."""
        ...


class LastLives(Lives, Protocol):
    """The known lives of other clusters."""

    def last_life_of(self, peer: str) -> Life | None:
        """Return the life that ``peer`` named last, also while its progress link is down; None if it named none."""
        ...


class LosingTopic(LoggedTopic, Protocol):
    """The topic that holds the entries."""

    @property
    def progress(self) -> LastLives:
        """The known lives of other clusters."""
        ...

    @property
    def replicators(self) -> Mapping[str, ReturningLink]:
        """The links, by target cluster."""
        ...


class LostEntries:
    """Lost entries of the other clusters of one topic. Used on the event loop's thread."""

    def __init__(self, topic: LosingTopic) -> None:
        """Create it; nothing is searched yet."""
        self._topic = topic
        self._found: dict[str, LostOf] = {}
        self._searching: set[str] = set()
        """Clusters whose search continues in a later turn."""

    def unacknowledged(self, peer: str, state: CursorState) -> int | None:
        """Count the held entries that ``peer`` published in an earlier life and that ``state`` has not acknowledged.

        None if the number is unknown: no progress link to ``peer`` is up, it names no life, the search takes more than
        one turn, or entries are damaged here, which another cluster may have returned.
        """
        return self._count(peer, self._topic.progress.life_of(peer), state)

    def last_known(self, peer: str, state: CursorState) -> int | None:
        """Count as ``unacknowledged`` does, for the last life of ``peer`` while the progress link to it is down."""
        return self._count(peer, self._topic.progress.last_life_of(peer), state)

    def _count(self, peer: str, life: Life | None, state: CursorState) -> int | None:
        if life is None:
            return None
        found = self._found.get(peer)
        if found is None or found.life != life:
            found = self._found[peer] = LostOf(self._topic.log.index, peer, life)
        newest = found.newest
        if newest is None or newest <= state.mark_delete_position:
            return 0
        if self._is_any_unacknowledged(self._skipped(peer, life), state):
            return None
        returned = self._returned_through(peer, life)
        if newest <= returned:
            return 0
        found.trim(self._topic.ledger.first_position.ledger_id, returned)
        if peer in self._searching or not self._search(peer):
            return None
        return found.unacknowledged(state)

    def is_searching(self, peer: str) -> bool:
        """Return whether the entries of ``peer`` are still being searched for, so that a number may be unknown."""
        return peer in self._searching

    def is_any_damaged(self, peer: str, state: CursorState) -> bool:
        """Return whether damaged entries were not sent back to ``peer`` and ``state`` has not acknowledged them.

        Their number may be unknown for this reason.
        """
        life = self._topic.progress.last_life_of(peer)
        return life is not None and self._is_any_unacknowledged(self._skipped(peer, life), state)

    def _skipped(self, peer: str, life: Life) -> Iterator[tuple[int, BitMap]]:
        link = self._topic.replicators.get(peer)
        return iter(()) if link is None else link.foreign.copies.skipped(Copied.lost(life))

    def _is_any_unacknowledged(self, entries: Iterable[tuple[int, BitMap]], state: CursorState) -> bool:
        first = self._topic.ledger.first_position.ledger_id
        return any(state.undeleted_among(ledger_id, each) for ledger_id, each in entries if ledger_id >= first)

    def _returned_through(self, peer: str, life: Life) -> Position:
        link = self._topic.replicators.get(peer)
        return EARLIEST if link is None else link.foreign.copies.returned_through(Copied.lost(life))

    def _search(self, peer: str) -> bool:
        """Search for one slice, and continue in the next turn; return whether the search is complete."""
        self._searching.discard(peer)
        environment = self._topic.environment
        is_done = self._found[peer].search(Slice(environment.clock).count)
        if not is_done:
            self._searching.add(peer)
            environment.loop.call_soon(self._search, peer)
        return is_done
