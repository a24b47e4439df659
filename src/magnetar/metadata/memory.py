"""A metadata store in memory, for tests and the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.cached import CachedMetadataStore
from magnetar.metadata.store import Watchers

if TYPE_CHECKING:
    from magnetar.metadata.cached import Transaction


class MemoryMetadataStore(CachedMetadataStore):
    """A MetadataStore without durability: a commit is reported before ``commit`` returns."""

    def reopened(self) -> MemoryMetadataStore:
        """Return the store as the next process opens it: the same entries, without watches."""
        store = MemoryMetadataStore(self._clock)
        store._tree = self._tree
        return store

    def forget_watchers(self) -> None:
        """Remove all watches, as at the end of the process that registered them."""
        self._watchers = Watchers()

    def close(self) -> None:
        """See MetadataStore."""

    def _submit(self, transaction: Transaction) -> None:
        assert self._pending[0] is transaction
        self._committed(1)
