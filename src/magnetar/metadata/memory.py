"""A metadata store that forgets: for tests and the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.cached import CachedMetadataStore
from magnetar.metadata.store import Watchers

if TYPE_CHECKING:
    from magnetar.metadata.cached import Transaction


class MemoryMetadataStore(CachedMetadataStore):
    """All of a MetadataStore's promises but durability: a commit is reported before ``commit`` returns."""

    def reopened(self) -> MemoryMetadataStore:
        """What the next process finds: the same entries, watched by nobody."""
        store = MemoryMetadataStore(self._clock)
        store._tree = self._tree
        return store

    def forget_watchers(self) -> None:
        """The process that watched has ended; another one begins on the same store."""
        self._watchers = Watchers()

    def close(self) -> None:
        """See MetadataStore."""

    def _submit(self, transaction: Transaction) -> None:
        assert self._pending[0] is transaction
        self._committed(1)
