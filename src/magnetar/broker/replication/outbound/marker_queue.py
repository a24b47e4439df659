"""Markers of PIP-33 for one cluster, which are sent between the entries of the topic's log.

Markers are not in the log: a marker must only follow the entries that were appended before it. Each therefore waits
until the link has sent these entries. Markers that are lost with a holder of the link are repeated: requests and
answers by the next snapshot, which does not wait for requests over a link that was handed over, updates of
subscriptions by this queue. The newest answer is kept for the next holder, because a request often arrives before the
link back has a holder.

An update that the target has confirmed must not be repeated: Apache Pulsar would apply it again, and undo a seek.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
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


class Delivery(NamedTuple):
    """One of the messages that the holder was sent in one place, or of the confirmations of that place.

    An entry or a probe comes first, and markers follow. Each confirmation confirms at least one of them, in order.
    """

    start: int
    """Number of the start of the link; the confirmations after a start concern no earlier delivery."""
    place: Position
    number: int
    """Number of the message, or of the confirmation, in this place, from 1."""

    def next(self, place: Position) -> Delivery:
        """Return the delivery that follows in ``place``."""
        return Delivery(self.start, place, self.number + 1 if place == self.place else 1)


@dataclass(slots=True)
class _Handed:
    """An update that the holder was sent and the target has not confirmed."""

    at: float
    marker: QueuedMarker
    delivery: Delivery | None = None


class MarkerQueue:
    """Waiting markers of one link; ``now`` is monotonic, in seconds."""

    def __init__(self, doubt_s: float) -> None:
        """Create an empty queue. Markers sent within ``doubt_s`` before the loss of the holder may be lost."""
        self._doubt_s = doubt_s
        self._waiting: deque[QueuedMarker] = deque()
        self._handed: dict[str, _Handed] = {}
        """Last update of each subscription that was sent, until it is confirmed."""

    def __len__(self) -> int:
        """Return the number of waiting markers."""
        return len(self._waiting)

    @property
    def has_updates(self) -> bool:
        """Return whether an update waits, or was sent and is not confirmed."""
        return bool(self._handed) or any(marker.update_of is not None for marker in self._waiting)

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
            self._handed[marker.update_of] = _Handed(now, marker)
        return marker

    def delivered(self, marker: QueuedMarker, delivery: Delivery) -> None:
        """Note the place in which a marker was sent."""
        if marker.update_of is not None:
            self._handed[marker.update_of].delivery = delivery

    def confirmed(self, through: Delivery) -> None:
        """Note that the target has confirmed everything that the link sent up to ``through``."""
        for name, handed in tuple(self._handed.items()):
            sent = handed.delivery
            if sent is not None and sent.start == through.start and sent <= through:
                del self._handed[name]

    def lost(self, now: float) -> None:
        """Handle the loss of the holder, with the markers that it had."""
        in_doubt = [each.marker for each in self._handed.values() if each.at + self._doubt_s >= now]
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
