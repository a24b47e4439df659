"""The metadata store as administration sees it: each of its changes is recorded in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from magnetar.base.errors import StorageError
    from magnetar.metadata.store import Change, Delete, MetadataStore, OnDurable, Put, Versioned
    from magnetar.sim.metasync.history import Cluster, History


class ObservedStore:
    """See MetadataStore. The synchronizer itself uses the store below."""

    def __init__(self, inner: MetadataStore, site: Cluster, history: History) -> None:
        """Record the changes that ``site`` makes in ``inner``."""
        self._inner = inner
        self._site = site
        self._history = history
        self.commit_times = inner.commit_times

    def commit(self, operations: Sequence[Put | Delete], on_durable: OnDurable | None = None) -> list[int]:
        """See MetadataStore."""
        drafts = [draft for each in operations if (draft := self._history.draft(self._site, each)) is not None]

        def ended(error: StorageError | None) -> None:
            for draft in drafts:
                self._history.ended(draft, error)
            if on_durable is not None:
                on_durable(error)

        versions = self._inner.commit(operations, ended)
        for draft in drafts:
            self._history.made(draft)
        return versions

    def get(self, path: str) -> Versioned | None:
        """See MetadataStore."""
        return self._inner.get(path)

    def children(self, path: str) -> list[str]:
        """See MetadataStore."""
        return self._inner.children(path)

    def each_child(self, path: str) -> Iterator[str]:
        """See MetadataStore."""
        return self._inner.each_child(path)

    def below(self, path: str) -> Iterator[tuple[str, bytes]]:
        """See MetadataStore."""
        return self._inner.below(path)

    def barrier(self, on_durable: OnDurable) -> None:
        """See MetadataStore."""
        self._inner.barrier(on_durable)

    def watch(self, prefix: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """See MetadataStore."""
        return self._inner.watch(prefix, callback)

    def close(self) -> None:
        """See MetadataStore."""
        self._inner.close()
