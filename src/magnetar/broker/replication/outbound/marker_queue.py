"""Markers of PIP-33 for one cluster, which are sent between the entries of the topic's log.

Markers are not in the log: a marker must only follow the entries that were appended before it. Each therefore waits
until the link has sent these entries. Markers that are lost with a holder of the link are repeated: requests and
answers by the next snapshot, which does not wait for requests over a link that was handed over, updates of
subscriptions by this queue. The newest answer is kept for the next holder, because a request often arrives before the
link back has a holder.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from magnetar.base.position import EARLIEST

if TYPE_CHECKING:
    from magnetar.base.position import Position

WAITING_MAX: Final = 1000
"""Maximum number of waiting markers; further ones are dropped, as if they were lost."""


class QueuedMarker(NamedTuple):
    """One marker."""

    entry: bytes
    after: Position
    """Newest entry of the log that must be sent before the marker."""
    update_of: str | None = None
    """Subscription that the marker updates; such a marker is sent again if it may be lost."""
    is_answer: bool = False
    """Whether the marker answers a request for a snapshot."""

    @property
    def outlives_holder(self) -> bool:
        """Whether the marker is kept while the link has no holder."""
        return self.update_of is not None or self.is_answer


class MarkerQueue:
    """Waiting markers of one link; ``now`` is monotonic, in seconds."""

    def __init__(self, doubt_s: float) -> None:
        """Create an empty queue. Markers sent within ``doubt_s`` before the loss of the holder may be lost."""
        self._doubt_s = doubt_s
        self._waiting: deque[QueuedMarker] = deque()
        self._handed: dict[str, tuple[float, QueuedMarker]] = {}
        """Last update of each subscription that was sent, and its time."""

    def __len__(self) -> int:
        """Return the number of waiting markers."""
        return len(self._waiting)

    def put(self, marker: QueuedMarker) -> bool:
        """Append a marker; an update of a subscription replaces its waiting one.

        Returns False if WAITING_MAX markers wait: the marker is dropped.
        """
        if marker.update_of is not None:
            self.forget(marker.update_of)
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(marker)
        return True

    def put_for_next(self, marker: QueuedMarker) -> bool:
        """Append a marker while the link has no holder: an answer replaces waiting ones."""
        if marker.is_answer:
            self._waiting = deque(each for each in self._waiting if not each.is_answer)
        return self.put(marker)

    def take(self, sent_through: Position, now: float) -> QueuedMarker | None:
        """Return the next marker, if all entries before it were sent; it counts as sent."""
        if not self._waiting or self._waiting[0].after > sent_through:
            return None
        marker = self._waiting.popleft()
        if marker.update_of is not None:
            self._handed[marker.update_of] = now, marker
        return marker

    def lost(self, now: float) -> None:
        """Handle the loss of the holder, with the markers that it had."""
        in_doubt = [marker for at, marker in self._handed.values() if at + self._doubt_s >= now]
        waiting = [marker for marker in self._waiting if marker.update_of is not None]
        newer = {marker.update_of for marker in waiting}
        kept = [*(marker for marker in in_doubt if marker.update_of not in newer), *waiting]
        answers = [marker for marker in self._waiting if marker.is_answer]
        self._waiting = deque([*(marker._replace(after=EARLIEST) for marker in kept), *answers[-1:]])
        self._handed.clear()

    def forget(self, subscription: str) -> None:
        """Drop the updates of a subscription, which are outdated."""
        self._handed.pop(subscription, None)
        self._waiting = deque(marker for marker in self._waiting if marker.update_of != subscription)

    def forget_updates(self) -> None:
        """Drop the updates of all subscriptions."""
        self._handed.clear()
        self._waiting = deque(marker for marker in self._waiting if marker.update_of is None)
