"""A metadata store that forgets: for tests and the simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import NotFoundError
from magnetar.metadata.store import Put, Versioned, Watchers, check_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from magnetar.base.world import Clock


class MemoryMetadataStore:
    """All of a MetadataStore's promises but durability."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; ``clock`` dates the changes."""
        self._clock = clock
        self._entries: dict[str, Versioned] = {}
        self._watchers = Watchers()

    def reopened(self) -> MemoryMetadataStore:
        """What the next process finds: the same entries, watched by nobody."""
        store = MemoryMetadataStore(self._clock)
        store._entries = self._entries
        return store

    def forget_watchers(self) -> None:
        """The process that watched has ended; another one begins on the same store."""
        self._watchers = Watchers()

    def get(self, path: str) -> Versioned | None:
        """See MetadataStore."""
        return self._entries.get(path)

    def put(self, path: str, value: bytes, expected_version: int | None = None) -> int:
        """See MetadataStore."""
        return self.put_many([Put(path, value, expected_version)])[0]

    def put_many(self, puts: Sequence[Put]) -> list[int]:
        """See MetadataStore."""
        changed = dict(self._entries)
        modified_ms = int(self._clock.now() * 1000)
        versions = []
        for put in puts:
            current = changed.get(put.path)
            check_version(put.path, current.version if current else None, put.expected_version)
            versions.append(current.version + 1 if current else 0)
            changed[put.path] = Versioned(put.value, versions[-1], modified_ms)
        self._entries = changed
        for put in puts:
            self._watchers.notify(put.path)
        return versions

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """See MetadataStore."""
        current = self._entries.get(path)
        if current is None:
            raise NotFoundError(path)
        check_version(path, current.version, expected_version)
        self._entries = {key: value for key, value in self._entries.items() if key != path}
        self._watchers.notify(path)

    def children(self, path: str) -> list[str]:
        """See MetadataStore."""
        parent = path.rstrip("/") + "/"
        names = {entry.removeprefix(parent).split("/", 1)[0] for entry in self._entries if entry.startswith(parent)}
        return sorted(names)

    def watch(self, prefix: str, callback: Callable[[str], None]) -> Callable[[], None]:
        """See MetadataStore."""
        return self._watchers.add(prefix, callback)

    def close(self) -> None:
        """See MetadataStore."""
