"""Scheduling of entries from the reader to the writer. Pure: `now` is an argument.

All topics of a target share one path to it: the rows, one connection, the target's event loop and its disk. Each of
these serves in order of arrival, so an entry waits behind everything that was passed on before it. Therefore little is
passed on at a time, and the topics take turns. The other entries wait in one queue per topic, where they delay no other
topic.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from magnetar.pipeline import limits

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.pipeline.rows import Carried

_CHANGE_MAX = 2.0
"""Maximum factor by which the limit grows or shrinks in a round."""


class Pace:
    """The limit of bytes in flight between the reader and the receipts of the target, with overhead per entry.

    The limit is the rate of confirmations, measured in rounds, times the sum of the shortest observed delay and the
    maximum queueing delay: QUEUE_SECONDS, or BACKLOG_QUEUE_SECONDS while every active topic has a backlog. So a faster
    or more distant target gets more, and all stages stay busy.
    """

    __slots__ = ("_confirmed", "_delay_min", "_is_limiting", "_round_at", "_shared_until", "limit")

    def __init__(self) -> None:
        """Begin with the minimum."""
        self.limit = limits.OUTFLOW_BYTES_MIN
        self._delay_min = math.inf
        self._round_at: float | None = None
        """The beginning of the round; None before the first receipt."""
        self._confirmed = 0
        self._is_limiting = False
        """Whether the limit delayed an entry in this round."""
        self._shared_until = -math.inf

    def limited(self) -> None:
        """Record that the limit delays an entry."""
        self._is_limiting = True

    def shared(self, now: float) -> None:
        """Record that an entry of a topic without a backlog is in flight, behind earlier ones."""
        if not self._is_limiting:
            return
        if now >= self._shared_until:
            shrunk = self.limit * limits.QUEUE_SECONDS / limits.BACKLOG_QUEUE_SECONDS
            self.limit = int(max(limits.OUTFLOW_BYTES_MIN, shrunk))
        self._shared_until = now + limits.SHARED_SECONDS

    def confirmed(self, size: int, handed_over_at: float, now: float) -> None:
        """Record the confirmation of ``size`` bytes, the last of which were passed on at ``handed_over_at``.

        A round is at least a round trip long, so that it contains the receipts of all bytes in flight.
        """
        self._delay_min = min(self._delay_min, now - handed_over_at)
        self._confirmed += size
        if self._round_at is None:
            self._begin_round(now)
        elif handed_over_at >= self._round_at and now - self._round_at >= limits.QUEUE_SECONDS:
            if self._is_limiting:
                queue_s = limits.QUEUE_SECONDS if now < self._shared_until else limits.BACKLOG_QUEUE_SECONDS
                self._adapt(self._confirmed / (now - self._round_at), queue_s)
            self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._round_at = now
        self._confirmed = 0
        self._is_limiting = False

    def _adapt(self, rate: float, queue_s: float) -> None:
        limit = rate * (self._delay_min + queue_s)
        limit = max(self.limit / _CHANGE_MAX, min(limit, self.limit * _CHANGE_MAX))
        self.limit = int(max(limits.OUTFLOW_BYTES_MIN, min(limit, limits.TARGET_BYTES)))


class AttachmentQueue:
    """The queue of one attachment."""

    __slots__ = ("in_flight", "is_ready", "number", "sent", "waiting", "waiting_bytes")

    def __init__(self, number: int) -> None:
        """Create an empty queue for the attachment with this number."""
        self.number = number
        self.waiting: deque[Carried] = deque()
        self.waiting_bytes = 0
        """Bytes of ``waiting``, with overhead."""
        self.is_ready = False
        """Whether the queue waits for a turn."""
        self.sent: deque[tuple[Position, int, float]] = deque()
        """Unconfirmed entries: position, bytes with overhead, and time of passing on."""
        self.in_flight = 0
        """Bytes of ``sent``, with overhead."""

    @property
    def is_long(self) -> bool:
        """Return whether more than one turn's bytes are queued or in flight."""
        return max(self.in_flight, self.waiting_bytes) >= limits.OUTFLOW_TURN_BYTES


class Outflow:
    """The entries of all topics between a reader and its writer.

    Each topic may have an equal share of the limit in flight, and always one small entry, so that a topic without
    confirmations does not block others.
    """

    __slots__ = ("_backlogs", "_blocked", "_in_flight", "_pace", "_queues", "_ready")

    def __init__(self) -> None:
        """Begin without entries."""
        self._queues: dict[int, AttachmentQueue] = {}
        """By attachment, queues with entries that wait or are in flight."""
        self._ready: deque[AttachmentQueue] = deque()
        """Queues that wait for a turn, in order."""
        self._blocked: list[AttachmentQueue] = []
        """Queues with a large first entry and nothing in flight. They get a turn when less is in flight."""
        self._backlogs: dict[int, float] = {}
        """By attachment, the last time with a backlog."""
        self._in_flight = 0
        self._pace = Pace()

    def put(self, carried: Carried) -> None:
        """Add an entry to the queue of its attachment."""
        number = carried.attachment.number
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = AttachmentQueue(number)
        queue.waiting.append(carried)
        queue.waiting_bytes += _cost(carried)
        if len(queue.waiting) == 1:
            self._make_ready(queue)

    def take(self, now: float) -> list[Carried]:
        """Return the entries to pass on at ``now``, in order; topics alternate after OUTFLOW_TURN_BYTES."""
        taken: list[Carried] = []
        share = self._pace.limit // max(1, len(self._queues))
        while self._ready:
            queue = self._ready.popleft()
            self._take_turn(queue, share, taken, now)
            if queue.waiting and self._has_room(queue, share):
                self._ready.append(queue)
                continue
            queue.is_ready = False
            if queue.waiting:
                self._pace.limited()
                if queue.is_long:
                    self._backlogs[queue.number] = now
                if not queue.in_flight:
                    self._blocked.append(queue)
            elif now - self._backlogs.get(queue.number, -math.inf) >= limits.SHARED_SECONDS:
                self._pace.shared(now)
        return taken

    def confirmed(self, number: int, through: Position, now: float) -> None:
        """Record that all entries of an attachment up to and including ``through`` are confirmed."""
        queue = self._queues.get(number)
        if queue is None or not queue.sent or queue.sent[0][0] > through:
            return
        released, at = 0, now
        while queue.sent and queue.sent[0][0] <= through:
            _, cost, at = queue.sent.popleft()
            released += cost
        queue.in_flight -= released
        self._pace.confirmed(released, at, now)
        self._release(released)
        if queue.waiting:
            self._make_ready(queue)
        elif not queue.sent:
            del self._queues[number]

    def forget(self, number: int) -> None:
        """Remove the queue of an attachment that has ended, with its bytes in flight."""
        self._backlogs.pop(number, None)
        queue = self._queues.pop(number, None)
        if queue is not None:
            queue.waiting.clear()
            queue.waiting_bytes = 0
            self._release(queue.in_flight)

    def _make_ready(self, queue: AttachmentQueue) -> None:
        if not queue.is_ready:
            queue.is_ready = True
            self._ready.append(queue)

    def _release(self, size: int) -> None:
        self._in_flight -= size
        for queue in self._blocked:
            self._make_ready(queue)
        self._blocked.clear()

    def _take_turn(self, queue: AttachmentQueue, share: int, taken: list[Carried], now: float) -> None:
        turn_ends_at = queue.in_flight + limits.OUTFLOW_TURN_BYTES
        while queue.waiting and queue.in_flight < turn_ends_at and self._has_room(queue, share):
            carried = queue.waiting.popleft()
            cost = _cost(carried)
            queue.waiting_bytes -= cost
            queue.sent.append((carried.last, cost, now))
            queue.in_flight += cost
            self._in_flight += cost
            taken.append(carried)

    def _has_room(self, queue: AttachmentQueue, share: int) -> bool:
        """Return whether the first entry of a queue may be passed on.

        Entries are not split, so large ones of several topics go one after the other.
        """
        if _cost(queue.waiting[0]) > limits.OUTFLOW_TURN_BYTES and self._in_flight >= self._pace.limit:
            return False
        return queue.in_flight < share or not queue.in_flight


def _cost(carried: Carried) -> int:
    overhead = limits.OUTFLOW_ENTRY_BYTES + len(carried.sizes) * limits.OUTFLOW_RUN_ENTRY_BYTES
    return overhead + len(carried.entry)
