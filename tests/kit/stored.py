"""Values in metadata stores that do not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.metadata.starting import commit_at_start
from magnetar.metadata.store import Delete, Put

if TYPE_CHECKING:
    from magnetar.metadata.store import MetadataStore


def put(store: MetadataStore, path: str, value: bytes, expected_version: int | None = None) -> int:
    """Store one value and return its version; raises what the store refuses it with."""
    commit_at_start(store, [Put(path, value, expected_version)])
    stored = store.get(path)
    assert stored is not None
    return stored.version


def delete(store: MetadataStore, path: str, expected_version: int | None = None) -> None:
    """Remove one value; raises what the store refuses that with."""
    commit_at_start(store, [Delete(path, expected_version)])
