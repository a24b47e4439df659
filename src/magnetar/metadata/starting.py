"""Commits of a start, before the metadata store serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.errors import StorageError
    from magnetar.metadata.store import Delete, MetadataStore, Put


def commit_at_start(store: MetadataStore, operations: Sequence[Put | Delete]) -> None:
    """Commit operations to a store that does not serve yet. They are durable on return; raises StorageError."""
    outcome: list[StorageError | None] = []
    store.commit(operations, outcome.append)
    assert outcome, "a store that serves reports later"
    if outcome[0] is not None:
        raise outcome[0]
