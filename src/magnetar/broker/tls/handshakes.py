"""Limits of handshakes in progress. A client may begin one and never finish it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from magnetar.base.limits import Limit

if TYPE_CHECKING:
    from magnetar.broker.resources.limit_hits import LimitHits

WAITING_MAX: Final = 1024
"""Maximum number of clients whose handshake is not complete, including those that wait for their turn."""

DESCRIPTOR_SHARE: Final = 8
"""They get at most one of this many file descriptors."""

SILENT_S: Final = 1.0
"""Seconds without data after which a client loses its place to one that waits: it takes twice the round-trip time."""


def waiting_max(descriptors: int) -> int:
    """Return the maximum number of clients whose handshake is not complete, for a limit of file descriptors."""
    return max(1, min(WAITING_MAX, descriptors // DESCRIPTOR_SHARE))


class Handshake(Protocol):
    """The handshake of one client."""

    def begin(self) -> None:
        """Read from the client, and begin."""
        ...

    def give_up(self, limit: Limit) -> None:
        """Close the connection because of a limit."""
        ...


class Handshakes:
    """The handshakes in progress on all ports. Connections whose handshake is complete do not count."""

    def __init__(self, running_max: int, timeout_s: float, hits: LimitHits, pending_max: int = WAITING_MAX) -> None:
        """Allow ``running_max`` handshakes at the same time, and ``timeout_s`` seconds for each, with its waiting.

        ``pending_max`` is the maximum number of those in progress and those that wait.
        """
        self._running_max = running_max
        self._timeout_s = timeout_s
        self._hits = hits
        self._pending_max = pending_max
        self._is_stopped = False
        self._since: dict[Handshake, float] = {}
        """All handshakes that are not complete with their arrival, the oldest first."""
        self._silent: dict[Handshake, float] = {}
        """Those that wait for data of the client, and since when, the oldest first."""
        self._busy: set[Handshake] = set()
        """Those with data that this broker has not handled yet."""
        self._waiting: dict[Handshake, None] = {}
        """Those that wait for their turn, the oldest first."""
        self.succeeded = 0
        """Number of completed handshakes since the start of the broker."""
        self.failed = 0
        """Number of the others that have ended."""

    @property
    def in_progress(self) -> int:
        """The number of handshakes that are not complete."""
        return len(self._since)

    def arrived(self, handshake: Handshake, now: float) -> None:
        """Begin a handshake, or let it wait; beyond the limit of waiting ones, give it up."""
        if self._is_stopped:
            handshake.give_up(Limit.HANDSHAKES)
            return
        if len(self._since) >= self._pending_max:
            self._end(handshake, Limit.WAITING_HANDSHAKES)
            return
        self._since[handshake] = now
        self._waiting[handshake] = None
        self._begin_waiting(now)
        if handshake in self._waiting:
            self._hits.hit(Limit.HANDSHAKES)

    def received(self, handshake: Handshake) -> None:
        """Note that data of the client waits to be handled."""
        if self._silent.pop(handshake, None) is not None:
            self._busy.add(handshake)

    def handled(self, handshake: Handshake, now: float) -> None:
        """Note that all data of the client is handled, and that it must send more."""
        if handshake in self._busy:
            self._busy.remove(handshake)
            self._silent[handshake] = now

    def ended(self, handshake: Handshake, now: float, *, is_complete: bool) -> None:
        """Forget a handshake; a second call has no effect."""
        if self._forget(handshake):
            self.succeeded += is_complete
            self.failed += not is_complete
            self._begin_waiting(now)

    def check(self, now: float) -> None:
        """Give up handshakes that take too long, and let others have their places. Call it periodically."""
        for handshake, since in list(self._since.items()):
            if now - since < self._timeout_s:
                break
            self._end(handshake, Limit.HANDSHAKE_TIME)
        self._begin_waiting(now)

    def stop(self) -> None:
        """Give up all handshakes, also later ones, because the broker is ending; no limit counts as hit."""
        self._is_stopped = True
        for handshake in list(self._since):
            self._forget(handshake)
            handshake.give_up(Limit.HANDSHAKES)

    def _begin_waiting(self, now: float) -> None:
        while self._waiting and self._has_place(now):
            handshake = next(iter(self._waiting))
            del self._waiting[handshake]
            self._silent[handshake] = now
            handshake.begin()

    def _has_place(self, now: float) -> bool:
        """Return whether one more handshake may begin; a client that has been silent for long gives its place up."""
        if len(self._silent) + len(self._busy) < self._running_max:
            return True
        silent = next(iter(self._silent), None)
        if silent is None or now - self._silent[silent] < SILENT_S:
            return False
        self._end(silent, Limit.HANDSHAKES)
        return True

    def _end(self, handshake: Handshake, limit: Limit) -> None:
        self._hits.hit(limit)
        self._forget(handshake)
        self.failed += 1
        handshake.give_up(limit)

    def _forget(self, handshake: Handshake) -> bool:
        self._silent.pop(handshake, None)
        self._busy.discard(handshake)
        self._waiting.pop(handshake, None)
        return self._since.pop(handshake, None) is not None
