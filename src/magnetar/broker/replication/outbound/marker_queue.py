"""Markers of PIP-33 on their way to one cluster, between the entries of the topic's log.

They are not in the log: a marker must only come behind what had been appended when it was made. So each waits until the
link has sent that much. What is lost with a holder of the link is made again: requests and answers by the next
snapshot, which waits for none that was asked for over a link that was handed over since, the news of subscriptions by
this queue. The newest answer waits for the next holder: whoever asked is often there before the link back is carried.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from magnetar.base.position import EARLIEST

if TYPE_CHECKING:
    from magnetar.base.position import Position

WAITING_MAX: Final = 1000
"""Markers that wait; one more is dropped, as if it had been lost."""


class QueuedMarker(NamedTuple):
    """One marker."""

    entry: bytes
    after: Position
    """The newest entry of the log that must be sent before it."""
    update_of: str | None = None
    """The subscription that it brings news of; such a marker is sent again when it may have been lost."""
    is_answer: bool = False
    """Whether it answers a request for a snapshot."""

    @property
    def outlives_holder(self) -> bool:
        """Whether it is worth keeping while nobody carries the link."""
        return self.update_of is not None or self.is_answer


class MarkerQueue:
    """What waits for one link; ``now`` is in seconds of one clock that never goes back."""

    def __init__(self, doubt_s: float) -> None:
        """Nothing waits. What was handed out at most ``doubt_s`` before the link was lost may not have arrived."""
        self._doubt_s = doubt_s
        self._waiting: deque[QueuedMarker] = deque()
        self._handed: dict[str, tuple[float, QueuedMarker]] = {}
        """The last news of each subscription that was handed out, and when."""

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def put(self, marker: QueuedMarker) -> bool:
        """Queue a marker behind all others; news of a subscription replaces what waits of it.

        False if WAITING_MAX markers wait: the marker is dropped.
        """
        if marker.update_of is not None:
            self.forget(marker.update_of)
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(marker)
        return True

    def put_for_next(self, marker: QueuedMarker) -> bool:
        """As ``put`` while nobody carries the link: an answer replaces those that wait."""
        if marker.is_answer:
            self._waiting = deque(each for each in self._waiting if not each.is_answer)
        return self.put(marker)

    def take(self, sent_through: Position, now: float) -> QueuedMarker | None:
        """The next marker, if everything before it was sent; it counts as handed out."""
        if not self._waiting or self._waiting[0].after > sent_through:
            return None
        marker = self._waiting.popleft()
        if marker.update_of is not None:
            self._handed[marker.update_of] = now, marker
        return marker

    def lost(self, now: float) -> None:
        """The link lost its holder, and whatever of markers that had."""
        in_doubt = [marker for at, marker in self._handed.values() if at + self._doubt_s >= now]
        waiting = [marker for marker in self._waiting if marker.update_of is not None]
        newer = {marker.update_of for marker in waiting}
        kept = [*(marker for marker in in_doubt if marker.update_of not in newer), *waiting]
        answers = [marker for marker in self._waiting if marker.is_answer]
        self._waiting = deque([*(marker._replace(after=EARLIEST) for marker in kept), *answers[-1:]])
        self._handed.clear()

    def forget(self, subscription: str) -> None:
        """What was to be told of a subscription is not so any more."""
        self._handed.pop(subscription, None)
        self._waiting = deque(marker for marker in self._waiting if marker.update_of != subscription)
