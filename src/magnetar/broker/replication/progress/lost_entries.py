"""Entries that another cluster published and lost with its data, and that this cluster still holds.

Until a link has sent them back (broker/replication/outbound/copies.py), a subscription that has not acknowledged them
does not get them in the cluster that lost them. Positions tell them from other entries: a cluster gives no ledger an id
below the first one of its life (ADR 13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyroaring import BitMap

from magnetar.base.position import EARLIEST, Position
from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.loop.slices import Slice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from magnetar.base.life import Life
    from magnetar.broker.replication.outbound.copies import Copies, Lives
    from magnetar.cursor.state import CursorState
    from magnetar.geo.origins.index import OriginIndex


class LostOf:
    """The held entries of one cluster's earlier lives, one bitmap for each ledger of this log that has any.

    They take 2 bytes per entry at most, and go with their ledgers.
    """

    def __init__(self, index: OriginIndex, cluster: str, life: Life) -> None:
        """Find the entries that ``cluster`` published before ``life``; `look` does the work."""
        self.life = life
        self._index = index
        self._cluster = cluster
        self._through = EARLIEST
        """Everything up to here was looked at."""
        self._ledgers: dict[int, BitMap] = {}

    @property
    def newest(self) -> Position | None:
        """The local position of the newest of these entries; None when none is held."""
        return self._index.newest_through(self._cluster, Position(self.life.first_ledger_id, -1))

    def look(self, is_over: Callable[[], bool]) -> bool:
        """Look at extents until ``is_over``, which is asked after each; returns whether all were looked at."""
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
        """Forget the entries of ledgers below this one, and those up to ``returned``."""
        for ledger_id in [each for each in self._ledgers if each < max(first_ledger_id, returned.ledger_id)]:
            del self._ledgers[ledger_id]
        entries = self._ledgers.get(returned.ledger_id)
        if entries is not None:
            entries.remove_range(0, returned.entry_id + 1)

    def unacknowledged(self, state: CursorState) -> int:
        """How many of the entries found are not acknowledged; one that is acknowledged in part counts."""
        return sum(state.undeleted_among(ledger_id, entries) for ledger_id, entries in self._ledgers.items())


class ReturningLink(Protocol):
    """A link that sends back what its target lost."""

    @property
    def copies(self) -> Copies:
        """The entries that the target lost."""
        ...


class LosingTopic(LoggedTopic, Protocol):
    """The topic that holds entries which other clusters lost."""

    @property
    def progress(self) -> Lives:
        """What is known of the lives of other clusters."""
        ...

    @property
    def replicators(self) -> Mapping[str, ReturningLink]:
        """The links, by the other cluster."""
        ...


class LostEntries:
    """What the other clusters of one topic lost. Used on the event loop's thread."""

    def __init__(self, topic: LosingTopic) -> None:
        """Nothing was looked for yet."""
        self._topic = topic
        self._found: dict[str, LostOf] = {}
        self._looking: set[str] = set()
        """Clusters whose entries are looked for in a later turn of the event loop."""

    def unacknowledged(self, peer: str, state: CursorState) -> int | None:
        """Count the held entries that ``peer`` published in an earlier life and that ``state`` has not acknowledged.

        None while that is not known: no progress link to ``peer`` is up, it names no life, or there are so many extents
        that looking at them takes more than one turn of the event loop. Nor is it known whether another cluster has
        returned what is damaged here.
        """
        life = self._topic.progress.life_of(peer)
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
        if peer in self._looking or not self._look(peer):
            return None
        return found.unacknowledged(state)

    def _skipped(self, peer: str, life: Life) -> Iterator[tuple[int, BitMap]]:
        link = self._topic.replicators.get(peer)
        return iter(()) if link is None else link.copies.skipped(life)

    def _is_any_unacknowledged(self, entries: Iterable[tuple[int, BitMap]], state: CursorState) -> bool:
        first = self._topic.ledger.first_position.ledger_id
        return any(state.undeleted_among(ledger_id, each) for ledger_id, each in entries if ledger_id >= first)

    def _returned_through(self, peer: str, life: Life) -> Position:
        link = self._topic.replicators.get(peer)
        return EARLIEST if link is None else link.copies.returned_through(life)

    def _look(self, peer: str) -> bool:
        """Look for one slice of time, and go on in the next turn; returns whether nothing is left to look at."""
        self._looking.discard(peer)
        environment = self._topic.environment
        is_done = self._found[peer].look(Slice(environment.clock).is_over)
        if not is_done:
            self._looking.add(peer)
            environment.loop.call_soon(self._look, peer)
        return is_done
