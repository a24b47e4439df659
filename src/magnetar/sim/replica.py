"""One topic in one cluster, as the checks see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from magnetar.base.errors import StorageError
from magnetar.base.position import Position
from magnetar.metadata.resources import managed_ledger_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.names import TopicName
    from magnetar.broker.topic.topic import Topic
    from magnetar.sim.site import Site


class Replica:
    """A view; it outlives what it shows."""

    def __init__(self, site: Site, name: TopicName) -> None:
        """Show the topic ``name`` of ``site``."""
        self.site = site
        self.name = name

    @property
    def cluster(self) -> str:
        """The cluster's name."""
        return self.site.name

    @property
    def crashes(self) -> int:
        """How often the broker crashed."""
        return self.site.crashes

    @property
    def topic(self) -> Topic | None:
        """The topic, while it is loaded."""
        return self.site.topics.loaded.get(self.name) if self.site.running else None

    @property
    def is_unloading(self) -> bool:
        """Whether the topic lets nobody in until it is loaded again."""
        return self.site.topics.is_unloading(self.name)

    def has_listed(self, position: Position) -> bool:
        """Whether the topic's list of ledgers has the one of a position: what was trimmed or lost is not listed."""
        return position.ledger_id in self.listed()

    def listed(self) -> list[int]:
        """The ids in the topic's list of ledgers, in the metadata, whether the broker runs or not."""
        stored = self.site.metadata.written(managed_ledger_path(self.name))
        return [] if stored is None else [each["ledgerId"] for each in json.loads(stored.value).get("ledgers", ())]

    def has_stored(self, position: Position) -> bool:
        """Whether the broker's store has an entry at a position of the topic."""
        try:
            return position.entry_id < self.site.store.length(position.ledger_id)
        except StorageError:
            return False

    def durable_entries(self, after: Position) -> Iterator[tuple[Position, bytes]]:
        """The durable entries behind ``after``, straight from the disk where they are no longer in memory.

        Those that are damaged are given as they were written.
        """
        topic, store = self.topic, self.site.store
        if topic is None:
            return
        last = topic.ledger.last_confirmed_entry
        for ledger in topic.ledger.ledgers():
            position = Position(ledger.ledger_id, after.entry_id + 1 if ledger.ledger_id == after.ledger_id else 0)
            if ledger.ledger_id < after.ledger_id or position > last or not self.has_stored(position):
                continue
            end = last.entry_id + 1 if ledger.ledger_id == last.ledger_id else store.length(ledger.ledger_id)
            while position.entry_id < end:
                entries = store.read_cached(*position, 1000, 1 << 20)
                if entries is None:
                    with self.site.disk.intact():
                        entries = store._reader.read(*position, 1000, 1 << 20)  # noqa: SLF001 - without waiting
                if not entries:  # the topic counts entries that the store does not have
                    return
                for entry in entries[: end - position.entry_id]:
                    yield position, entry
                    position = position._replace(entry_id=position.entry_id + 1)
