"""Persist, then speak: clusters publish progress only after it is durable.

The loss of a cluster in just that moment is rare in a run, so the order itself is checked.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING
from unittest.mock import patch

from magnetar.broker.replication.progress.topic_progress import TopicProgress
from magnetar.cursor.cursor import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.errors import StorageError
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.metadata.store import OnDurable


@contextlib.contextmanager
def progress_watched(violate: Callable[[str], None]) -> Iterator[None]:
    """Call ``violate`` for progress that is published outside of the report of a cursor's write."""
    flush, publish = Cursor.flush, TopicProgress.publish
    reports = 0

    def watched_flush(self: Cursor, on_durable: OnDurable) -> None:
        def reported(error: StorageError | None) -> None:
            nonlocal reports
            reports += 1
            try:
                on_durable(error)
            finally:
                reports -= 1

        flush(self, reported)

    def watched_publish(self: TopicProgress, delta: SubscriptionProgress, count: int, oldest_at: float | None) -> None:
        if not reports and not delta.deleted:  # deletions follow a write of the metadata
            violate(f"P6: progress of {delta.name} is published before it is durable")
        publish(self, delta, count, oldest_at)

    with patch.object(Cursor, "flush", watched_flush), patch.object(TopicProgress, "publish", watched_publish):
        yield
