"""Which entries a task hands to its writer next, and how many. Pure: `now` is an argument.

All topics of a target share one way to it: the rows, one connection, the target's event loop and its disk. Each of
these serves in order of arrival, so an entry waits there behind all that was handed over before it. Therefore little is
handed over at a time, and the topics take turns. The rest waits in one queue per topic, where it delays nobody else.
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
"""Factor by which the limit grows or shrinks at most in a round."""


class Pace:
    """How much may be under way between the reader and the receipts of the target, in bytes with overhead per entry.

    The limit is the rate at which the target confirms, measured in rounds, times the shortest delay that was seen and
    the seconds that an entry may wait: QUEUE_SECONDS, or BACKLOG_QUEUE_SECONDS while every topic that sends has a
    backlog. So a faster or a more distant target gets more, and what is under way keeps all stages at work.
    """

    __slots__ = ("_confirmed", "_delay_min", "_is_limiting", "_round_at", "_shared_until", "limit")

    def __init__(self) -> None:
        """Begin with the least."""
        self.limit = limits.OUTFLOW_BYTES_MIN
        self._delay_min = math.inf
        self._round_at: float | None = None
        """When the round began; None before the first receipt."""
        self._confirmed = 0
        self._is_limiting = False
        """Whether an entry had to wait in this round because of the limit."""
        self._shared_until = -math.inf

    def limited(self) -> None:
        """Note that an entry has to wait."""
        self._is_limiting = True

    def shared(self, now: float) -> None:
        """Note that an entry of a topic without a backlog is on its way, behind what was handed over before it."""
        if not self._is_limiting:
            return
        if now >= self._shared_until:
            shrunk = self.limit * limits.QUEUE_SECONDS / limits.BACKLOG_QUEUE_SECONDS
            self.limit = int(max(limits.OUTFLOW_BYTES_MIN, shrunk))
        self._shared_until = now + limits.SHARED_SECONDS

    def confirmed(self, size: int, handed_over_at: float, now: float) -> None:
        """Note that ``size`` bytes were confirmed, the last of which were handed over at ``handed_over_at``.

        A round is at least a round trip, so that it contains the receipts for all that was under way.
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


class Lane:
    """The entries of one attachment."""

    __slots__ = ("in_flight", "is_ready", "number", "sent", "waiting")

    def __init__(self, number: int) -> None:
        """Begin without entries of the attachment with this number."""
        self.number = number
        self.waiting: deque[Carried] = deque()
        self.is_ready = False
        """Whether the lane is to have a turn."""
        self.sent: deque[tuple[Position, int, float]] = deque()
        """Entries without a receipt: position, bytes with overhead, and when they were handed over."""
        self.in_flight = 0
        """Bytes of ``sent``, with overhead."""

    @property
    def is_long(self) -> bool:
        """Whether more waits, or is under way, than one turn takes."""
        return max(self.in_flight, len(self.waiting) * limits.OUTFLOW_ENTRY_BYTES) >= limits.OUTFLOW_TURN_BYTES


class Outflow:
    """The entries of all topics on their way from a reader to its writer.

    Each topic may have an equal share of the limit under way, and a small entry in any case: a topic that the target
    does not confirm holds up no other.
    """

    __slots__ = ("_backlogs", "_blocked", "_in_flight", "_lanes", "_pace", "_ready")

    def __init__(self) -> None:
        """Begin without entries."""
        self._lanes: dict[int, Lane] = {}
        """By attachment: lanes in which entries wait or are under way."""
        self._ready: deque[Lane] = deque()
        """Lanes that are to have a turn, in this order."""
        self._blocked: list[Lane] = []
        """Lanes with a large entry and nothing under way: they have a turn when other lanes have less under way."""
        self._backlogs: dict[int, float] = {}
        """By attachment: when it last had a backlog."""
        self._in_flight = 0
        self._pace = Pace()

    def put(self, carried: Carried) -> None:
        """Have an entry wait for its turn, behind those of its attachment."""
        number = carried.attachment.number
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = Lane(number)
        lane.waiting.append(carried)
        if len(lane.waiting) == 1:
            self._make_ready(lane)

    def take(self, now: float) -> list[Carried]:
        """Return the entries to hand over at ``now``, in this order; topics alternate after OUTFLOW_TURN_BYTES."""
        taken: list[Carried] = []
        share = self._pace.limit // max(1, len(self._lanes))
        while self._ready:
            lane = self._ready.popleft()
            self._take_turn(lane, share, taken, now)
            if lane.waiting and self._has_room(lane, share):
                self._ready.append(lane)
                continue
            lane.is_ready = False
            if lane.waiting:
                self._pace.limited()
                if lane.is_long:
                    self._backlogs[lane.number] = now
                if not lane.in_flight:
                    self._blocked.append(lane)
            elif now - self._backlogs.get(lane.number, -math.inf) >= limits.SHARED_SECONDS:
                self._pace.shared(now)
        return taken

    def confirmed(self, number: int, through: Position, now: float) -> None:
        """Note that all entries of an attachment up to and including ``through`` have arrived."""
        lane = self._lanes.get(number)
        if lane is None or not lane.sent or lane.sent[0][0] > through:
            return
        released, at = 0, now
        while lane.sent and lane.sent[0][0] <= through:
            _, cost, at = lane.sent.popleft()
            released += cost
        lane.in_flight -= released
        self._pace.confirmed(released, at, now)
        self._release(released)
        if lane.waiting:
            self._make_ready(lane)
        elif not lane.sent:
            del self._lanes[number]

    def forget(self, number: int) -> None:
        """Drop what waits of an attachment that has ended, and count what is under way no more."""
        self._backlogs.pop(number, None)
        lane = self._lanes.pop(number, None)
        if lane is not None:
            lane.waiting.clear()
            self._release(lane.in_flight)

    def _make_ready(self, lane: Lane) -> None:
        if not lane.is_ready:
            lane.is_ready = True
            self._ready.append(lane)

    def _release(self, size: int) -> None:
        self._in_flight -= size
        for lane in self._blocked:
            self._make_ready(lane)
        self._blocked.clear()

    def _take_turn(self, lane: Lane, share: int, taken: list[Carried], now: float) -> None:
        turn_ends_at = lane.in_flight + limits.OUTFLOW_TURN_BYTES
        while lane.waiting and lane.in_flight < turn_ends_at and self._has_room(lane, share):
            carried = lane.waiting.popleft()
            cost = _cost(carried)
            lane.sent.append((carried.position, cost, now))
            lane.in_flight += cost
            self._in_flight += cost
            taken.append(carried)

    def _has_room(self, lane: Lane, share: int) -> bool:
        """Whether the first entry that waits in a lane may be handed over.

        Entries are not cut, so large ones of several topics go one after the other.
        """
        if _cost(lane.waiting[0]) > limits.OUTFLOW_TURN_BYTES and self._in_flight >= self._pace.limit:
            return False
        return lane.in_flight < share or not lane.in_flight


def _cost(carried: Carried) -> int:
    return limits.OUTFLOW_ENTRY_BYTES + len(carried.entry)
