"""The reader's side of one link: a topic of one source on its way to one target. Pure: a state and its table.

    state        event                                       next
    -----        -----                                       ----
    WAITING      start                                       SUBSCRIBING
    SUBSCRIBING  subscribed, nothing to seek                 ATTACHED
    SUBSCRIBING  subscribed, a gap was named                 SEEKING
    SEEKING      sought                                      ATTACHED
    any but DISPLACED:
                 refused, closed (target or source ends it)  WAITING, later: the link is parked
                 detach (the target is down)                 WAITING
                 displaced (the next lease has the link)     DISPLACED

Each stay is a new attachment with a number of its own, which is also the consumer id at the source, so whatever
still comes for an earlier stay is told by its number and ignored. What was under way when a stay ends is forgotten:
it stays in the source's log, before which the replication cursor does not move.

Methods return the effects that the shell must carry out at the source, in order.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST
from magnetar.pipeline import limits
from magnetar.pipeline.connections.flow import Backoff, Budget, Window
from magnetar.pipeline.rows import Attachment

if TYPE_CHECKING:
    from random import Random

    from magnetar.base.position import Position

PARKING = Backoff(limits.PARK_INITIAL_SECONDS, limits.PARK_MAX_SECONDS)
"""How long a refused link waits."""


class Subscribe(NamedTuple):
    """Take the link over at the source."""

    attachment: Attachment


class Seek(NamedTuple):
    """Ask for everything after ``position`` again."""

    number: int
    position: Position


class Flow(NamedTuple):
    """Let the source send ``permits`` entries more."""

    number: int
    permits: int


class Acknowledge(NamedTuple):
    """Advance the replication cursor to ``position``, inclusive."""

    number: int
    position: Position


class Close(NamedTuple):
    """Give the link up."""

    number: int


class Retry(NamedTuple):
    """Call `start` again in ``seconds``."""

    seconds: float


Effect = Subscribe | Flow | Acknowledge | Close | Retry


class State(Enum):
    """Where a link stands."""

    WAITING = auto()
    SUBSCRIBING = auto()
    SEEKING = auto()
    ATTACHED = auto()
    DISPLACED = auto()


class SourceLink:
    """One topic of one source."""

    __slots__ = (
        "_attempt",
        "_budget",
        "_confirmed",
        "_passed_over",
        "_progress_at",
        "_seek_to",
        "attachment",
        "furthest",
        "reason",
        "rival",
        "state",
        "window",
    )

    def __init__(self, source: str, topic: str, budget: Budget) -> None:
        """Wait to be started."""
        self.attachment = Attachment(0, source, topic)
        self.state = State.WAITING
        self.reason = ""
        """Why the link was parked; empty once the target has confirmed more than before."""
        self.rival = ""
        """The other pipeline that held the link when it was parked; empty where that was not the reason."""
        self.window = Window(budget)
        self._budget = budget
        self._attempt = 0
        self._seek_to: Position | None = None
        self._confirmed: Position | None = None
        self.furthest: Position | None = None
        """The newest position that the target has confirmed, over all stays."""
        self._passed_over = EARLIEST
        self._progress_at = 0.0

    @property
    def live(self) -> bool:
        """Whether the link holds, or is about to hold, its consumer at the source."""
        return self.state in {State.SUBSCRIBING, State.SEEKING, State.ATTACHED}

    def start(self, number: int) -> list[Effect]:
        """Begin a stay under a fresh ``number``; nothing happens to a link that is live or displaced."""
        if self.state is not State.WAITING:
            return []
        self.attachment = self.attachment._replace(number=number, life="")
        self.window = Window(self._budget)
        self._confirmed = None
        self._passed_over = EARLIEST
        self.state = State.SUBSCRIBING
        return [Subscribe(self.attachment)]

    def subscribed(self) -> list[Effect] | Seek:
        """Hear that the source granted the subscription; returns where it is to go first, if anywhere."""
        assert self.state is State.SUBSCRIBING
        if self._seek_to is None:
            return self._attached()
        self.state = State.SEEKING
        return Seek(self.attachment.number, self._seek_to)

    def sought(self) -> list[Effect]:
        """Hear that the source went back to where it was told to."""
        assert self.state is State.SEEKING
        return self._attached()

    def arrived(self, position: Position, size: int, now: float, permits: int = 1, *, is_marker: bool = False) -> None:
        """Count an entry from the source, and the ``permits`` that it used."""
        if not self.window.in_flight:
            self._progress_at = now
        self.window.arrived(position, size, permits, is_marker=is_marker)

    def passed_over(self, position: Position, permits: int, size: int) -> None:
        """Count an entry that is not carried: it is confirmed as soon as everything before it is."""
        self.window.passed_over(permits, size)
        self._passed_over = position
        if not self.window.in_flight:
            self._confirmed = position

    def confirmed(self, through: Position, now: float) -> None:
        """Hear that everything up to and including ``through`` is durable at the target."""
        self.window.confirmed(through)
        self._confirmed = through if self.window.in_flight else max(through, self._passed_over)
        self._progress_at = now
        # A probe, or an entry that is sent again, confirms nothing new: what parked the link may be right behind it.
        if self.furthest is None or through > self.furthest:
            self.furthest = through
            self._attempt = 0
            self._seek_to = None
            self.reason = self.rival = ""

    def grant(self) -> list[Effect]:
        """Ask for more entries if there is room."""
        permits = self.window.grant() if self.state is State.ATTACHED else 0
        return [Flow(self.attachment.number, permits)] if permits else []

    def acknowledge(self) -> list[Effect]:
        """Pass what was confirmed since the last time on to the source."""
        position, self._confirmed = self._confirmed, None
        return [Acknowledge(self.attachment.number, position)] if position is not None and self.live else []

    @property
    def is_caught_up(self) -> bool:
        """Whether nothing is under way."""
        return not self.window.in_flight

    def stalled(self, now: float) -> bool:
        """Whether entries have been under way for STALL_SECONDS without a receipt."""
        return self.window.in_flight > 0 and now - self._progress_at >= limits.STALL_SECONDS

    def gap(self, reason: str, last: Position, rng: Random) -> list[Effect]:
        """Hear that the target holds only up to ``last``: go back there, later if that did not help before."""
        again = self._seek_to == last
        self._seek_to = self.furthest = last
        return self.refused(reason, rng) if again else [*self._leave(), Retry(0.0)]

    def refused(self, reason: str, rng: Random) -> list[Effect]:
        """Hear that the target does not take the topic: tell the source what was confirmed before, and park the link.

        Otherwise the source would send this again in the next stay, take its confirmation for progress, and drop the
        reason while the link goes on waiting.
        """
        if not self.live:
            return []
        return [*self.acknowledge(), *self._leave(), *self._park(reason, rng)]

    def closed(self, reason: str, rng: Random, rival: str = "") -> list[Effect]:
        """Hear that the source ended or refused the consumer, or is gone itself: park the link.

        ``rival`` is the other pipeline that holds the link, if that is why.
        """
        return self._park(reason, rng, rival) if self._leave() else []

    def detach(self) -> list[Effect]:
        """Give the link up because the target is down, or nobody wants the topic carried any more."""
        self.reason = self.rival = ""
        return self._leave()

    def displaced(self) -> None:
        """Hear that the next lease holds the link: it is over for this one."""
        self._leave()
        self.state = State.DISPLACED

    def _attached(self) -> list[Effect]:
        self.state = State.ATTACHED
        return self.grant()

    def _leave(self) -> list[Effect]:
        """End the stay, if there is one."""
        if not self.live:
            return []
        self.window.close()
        self.state = State.WAITING
        return [Close(self.attachment.number)]

    def _park(self, reason: str, rng: Random, rival: str = "") -> list[Effect]:
        self.reason, self.rival = reason, rival
        self._attempt += 1
        return [Retry(PARKING.delay(self._attempt - 1, rng))]
