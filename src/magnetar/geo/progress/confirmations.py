"""The confirmation of one topic's acknowledgements by one peer.

A subscription counts the entries that it acknowledged here. A mark is such a count, with the time of the oldest
unconfirmed acknowledgement. A mark is pending, then sent, then confirmed. A loss of the link changes no mark: the next
message is the full state, which includes everything that was sent or pending.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class _Mark:
    through: int  # the count at the time of publishing
    since: float | None  # time of the oldest acknowledgement; None: only claims of other clusters

    def joined(self, later: _Mark) -> _Mark:
        times = [mark.since for mark in (self, later) if mark.since is not None]
        return _Mark(max(self.through, later.through), min(times, default=None))


class Confirmations:
    """The marks of one topic's subscriptions for one peer, by subscription."""

    __slots__ = ("_confirmed", "_sent", "_waiting")

    def __init__(self) -> None:
        """Begin without marks."""
        self._waiting: dict[str, _Mark] = {}
        self._sent: dict[str, _Mark] = {}
        self._confirmed: dict[str, int] = {}

    def published(self, name: str, through: int, since: float | None) -> None:
        """Record that acknowledgements up to the count ``through`` are pending."""
        mark, before = _Mark(through, since), self._waiting.get(name)
        self._waiting[name] = mark if before is None else before.joined(mark)

    def sent(self) -> None:
        """Record that everything pending is being sent, and everything lost is sent again."""
        for name, mark in self._waiting.items():
            before = self._sent.get(name)
            self._sent[name] = mark if before is None else before.joined(mark)
        self._waiting = {}

    def confirmed(self) -> float | None:
        """Record that the peer has everything that was sent; return the time of its oldest acknowledgement, or None."""
        for name, mark in self._sent.items():
            self._confirmed[name] = max(mark.through, self._confirmed.get(name, 0))
        oldest = min((mark.since for mark in self._sent.values() if mark.since is not None), default=None)
        self._sent = {}
        return oldest

    def keep(self, names: Collection[str]) -> None:
        """Remove all other subscriptions."""
        for name in [name for name in (*self._waiting, *self._sent, *self._confirmed) if name not in names]:
            self._waiting.pop(name, None)
            self._sent.pop(name, None)
            self._confirmed.pop(name, None)

    def through(self, name: str) -> int:
        """Return the count that the peer has confirmed."""
        return self._confirmed.get(name, 0)

    def since(self, name: str) -> float | None:
        """Return the time of the oldest unconfirmed acknowledgement; None if everything published is confirmed."""
        times = [mark.since for marks in (self._sent, self._waiting) if (mark := marks.get(name)) is not None]
        return min((time for time in times if time is not None), default=None)


class Acknowledged:
    """The acknowledgements of one subscription in this cluster that are not yet published to the peers."""

    __slots__ = ("_oldest_at", "_void", "_writing", "count")

    def __init__(self, count: int = 0) -> None:
        """Begin at ``count`` entries, acknowledged before the subscription was replicated."""
        self.count = count  # number of entries; never decreases
        self._void = 0  # acknowledgements up to this count were undone by a reset
        self._oldest_at: float | None = None  # time of the oldest acknowledgement that no write includes
        self._writing: deque[float | None] = deque()  # the same for each write in flight, in order

    def add(self, entries: int, now: float) -> None:
        """Add ``entries`` acknowledged entries, 0 for members of a batch."""
        self.count += entries
        if self._oldest_at is None:
            self._oldest_at = now

    def moved(self) -> None:
        """Record a reset of the subscription: earlier acknowledgements do not count any more."""
        self._void = self.count
        self._oldest_at = None

    def writing(self) -> float | None:
        """Begin a write of all acknowledgements; return the time of the oldest one. ``written`` must follow."""
        oldest, self._oldest_at = self._oldest_at, None
        self._writing.append(oldest)
        return oldest

    def written(self, *, durable: bool) -> None:
        """End the oldest write; acknowledgements that it did not make durable belong to the next write."""
        oldest = self._writing.popleft()
        if not durable and oldest is not None:
            self._oldest_at = oldest if self._oldest_at is None else min(oldest, self._oldest_at)

    def unconfirmed(self, name: str, peer: Confirmations) -> Unconfirmed:
        """Return the acknowledgements that ``peer`` has not confirmed."""
        times = [time for time in (peer.since(name), *self._writing, self._oldest_at) if time is not None]
        return Unconfirmed(self.count - max(self._void, peer.through(name)), min(times, default=None))


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """The unconfirmed progress of a subscription for one peer."""

    entries: int
    """Number of whole entries acknowledged here; seeks and partly acknowledged batches affect ``since`` only."""
    since: float | None
    """Time of the oldest unconfirmed acknowledgement, in seconds since the epoch; None: everything is confirmed."""

    def age_s(self, now: float) -> float:
        """Return the seconds since the oldest unconfirmed acknowledgement; 0.0 if everything is confirmed."""
        return 0.0 if self.since is None else max(0.0, now - self.since)
