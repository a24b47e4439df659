"""The common part of metadata stores that observe the commits to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.histogram import Histogram
    from magnetar.metadata.store import Change, MetadataStore, OnDurable, Versioned


class ForwardingMetadataStore:
    """See MetadataStore. Reads, barriers and watches are those of the store below; a subclass commits."""

    def __init__(self, inner: MetadataStore) -> None:
        """Forward to ``inner``."""
        self._inner = inner
        self.commit_times: Histogram = inner.commit_times

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
