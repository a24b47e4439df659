"""How far one peer has confirmed what the subscriptions of one topic acknowledged here.

A subscription counts the entries that it acknowledged here; a mark is such a count, with when the oldest of what is not
confirmed was acknowledged. Marks wait, are sent, are confirmed. A loss of the link changes none of them: what follows
is the full state, which holds all that was sent and all that waits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class _Mark:
    through: int  # the count, when it was published
    since: float | None  # when the oldest was acknowledged; None: there is nothing but claims of other clusters

    def joined(self, later: _Mark) -> _Mark:
        times = [mark.since for mark in (self, later) if mark.since is not None]
        return _Mark(max(self.through, later.through), min(times, default=None))


class Confirmations:
    """The marks of one topic's subscriptions towards one peer, by name."""

    __slots__ = ("_confirmed", "_sent", "_waiting")

    def __init__(self) -> None:
        """Nothing was published and nothing is confirmed."""
        self._waiting: dict[str, _Mark] = {}
        self._sent: dict[str, _Mark] = {}
        self._confirmed: dict[str, int] = {}

    def published(self, name: str, through: int, since: float | None) -> None:
        """What was acknowledged until the count ``through`` is to be sent."""
        mark, before = _Mark(through, since), self._waiting.get(name)
        self._waiting[name] = mark if before is None else before.joined(mark)

    def sent(self) -> None:
        """All that waits goes out now, and what was sent and lost with it."""
        for name, mark in self._waiting.items():
            before = self._sent.get(name)
            self._sent[name] = mark if before is None else before.joined(mark)
        self._waiting = {}

    def confirmed(self) -> float | None:
        """The peer has everything that was sent; returns when the oldest of it was acknowledged, None for nothing."""
        for name, mark in self._sent.items():
            self._confirmed[name] = max(mark.through, self._confirmed.get(name, 0))
        oldest = min((mark.since for mark in self._sent.values() if mark.since is not None), default=None)
        self._sent = {}
        return oldest

    def keep(self, names: Collection[str]) -> None:
        """Forget every other subscription."""
        for name in [name for name in (*self._waiting, *self._sent, *self._confirmed) if name not in names]:
            self._waiting.pop(name, None)
            self._sent.pop(name, None)
            self._confirmed.pop(name, None)

    def through(self, name: str) -> int:
        """The count up to which the peer has confirmed."""
        return self._confirmed.get(name, 0)

    def since(self, name: str) -> float | None:
        """When the oldest of what it has not confirmed was acknowledged; None: it has all that was published."""
        times = [mark.since for marks in (self._sent, self._waiting) if (mark := marks.get(name)) is not None]
        return min((time for time in times if time is not None), default=None)


class Acknowledged:
    """What one subscription acknowledged here, until it is published to the peers."""

    __slots__ = ("_oldest_at", "_void", "_writing", "count")

    def __init__(self, count: int = 0) -> None:
        """Nothing but ``count`` entries, from before the subscription was replicated."""
        self.count = count  # of entries; never goes back
        self._void = 0  # up to this count, what was acknowledged is so no more: the subscription was moved
        self._oldest_at: float | None = None  # of what is not being written yet
        self._writing: deque[float | None] = deque()  # the same for each write that is under way, in order

    def add(self, entries: int, now: float) -> None:
        """So many entries more, or members of a batch alone."""
        self.count += entries
        if self._oldest_at is None:
            self._oldest_at = now

    def moved(self) -> None:
        """The subscription begins anew elsewhere: what was acknowledged is so no more."""
        self._void = self.count
        self._oldest_at = None

    def writing(self) -> float | None:
        """All of it is being written; returns when the oldest was acknowledged. ``written`` is called in any case."""
        oldest, self._oldest_at = self._oldest_at, None
        self._writing.append(oldest)
        return oldest

    def written(self, *, durable: bool) -> None:
        """The oldest write ended; what it did not make durable is written again."""
        oldest = self._writing.popleft()
        if not durable and oldest is not None:
            self._oldest_at = oldest if self._oldest_at is None else min(oldest, self._oldest_at)

    def unconfirmed(self, name: str, peer: Confirmations) -> Unconfirmed:
        """What ``peer`` has not confirmed of it."""
        times = [time for time in (peer.since(name), *self._writing, self._oldest_at) if time is not None]
        return Unconfirmed(self.count - max(self._void, peer.through(name)), min(times, default=None))


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """What one peer has not confirmed of a subscription's progress."""

    entries: int
    """Acknowledged here, whole; a batch that is acknowledged in part, and a seek, count for ``since`` alone."""
    since: float | None
    """When the oldest was acknowledged, in seconds since the epoch; None: the peer has confirmed everything."""

    def age_s(self, now: float) -> float:
        """Seconds since the oldest was acknowledged; 0.0: the peer has confirmed everything."""
        return 0.0 if self.since is None else max(0.0, now - self.since)
