"""The metadata store as administration sees it: each of its changes is recorded in the history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.forwarding import ForwardingMetadataStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.errors import StorageError
    from magnetar.metadata.store import Delete, MetadataStore, OnDurable, Put
    from magnetar.sim.metasync.history import Cluster, History


class ObservedStore(ForwardingMetadataStore):
    """See MetadataStore. The synchronizer itself uses the store below."""

    def __init__(self, inner: MetadataStore, site: Cluster, history: History) -> None:
        """Record the changes that ``site`` makes in ``inner``."""
        super().__init__(inner)
        self._site = site
        self._history = history

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
