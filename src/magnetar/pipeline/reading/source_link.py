"""The reader's side of one link: a topic of one source for one target. Pure: a state and its transition table.

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

A link that rests is forgotten; the source reports it when it needs a holder again.

Each attachment has a number of its own, which is also the consumer id at the source, so that late events of an earlier
attachment are recognized and ignored. Entries in flight at the end of an attachment are dropped. They stay in the
source's log, because the replication cursor is before them.

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
    from magnetar.wire.links import LinkEnd

PARKING = Backoff(limits.PARK_INITIAL_SECONDS, limits.PARK_MAX_SECONDS)
"""The delay before a refused link is retried."""


class Subscribe(NamedTuple):
    """Subscribe at the source, and take over the link."""

    attachment: Attachment


class Seek(NamedTuple):
    """Request everything after the ``end`` of what the target holds."""

    number: int
    end: LinkEnd


class Flow(NamedTuple):
    """Grant ``permits`` to the source."""

    number: int
    permits: int


class Acknowledge(NamedTuple):
    """Advance the replication cursor to ``position``, inclusive."""

    number: int
    position: Position


class Close(NamedTuple):
    """Close the consumer."""

    number: int


class Retry(NamedTuple):
    """Call `start` again after ``seconds``."""

    seconds: float


Effect = Subscribe | Flow | Acknowledge | Close | Retry


class State(Enum):
    """The state of a link."""

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
        "_gap_at",
        "_life",
        "_passed_over",
        "_progress_at",
        "_seek_to",
        "attachment",
        "furthest",
        "is_refused",
        "is_urgent",
        "reason",
        "rival",
        "state",
        "window",
    )

    def __init__(self, source: str, topic: str, budget: Budget) -> None:
        """Begin in state WAITING."""
        self.attachment = Attachment(0, source, topic)
        self.state = State.WAITING
        self.reason = ""
        """The reason for parking; empty after the target has confirmed more than before."""
        self.is_refused = False
        """Whether the reason comes from the target. Otherwise it concerns the source, which knows it."""
        self.rival = ""
        """The other pipeline that held the link at the time of parking; empty for other reasons."""
        self.is_urgent = False
        """Whether the source has entries to carry, as it says."""
        self.window = Window(budget)
        self._budget = budget
        self._attempt = 0
        self._seek_to: LinkEnd | None = None
        """Where the source must continue; None when it has answered the seek."""
        self._gap_at: LinkEnd | None = None
        """The place of the last gap, until the target has confirmed more."""
        self._confirmed: Position | None = None
        self.furthest: Position | None = None
        """The newest position that the target has confirmed, over all attachments."""
        self._life = ""
        """The life of the source that the positions belong to; empty before the source was found."""
        self._passed_over = EARLIEST
        self._progress_at = 0.0

    @property
    def live(self) -> bool:
        """Return whether the link has a consumer at the source, or is subscribing."""
        return self.state in {State.SUBSCRIBING, State.SEEKING, State.ATTACHED}

    def start(self, number: int) -> list[Effect]:
        """Begin an attachment with a new ``number``; no effect on a link that is live or displaced."""
        if self.state is not State.WAITING:
            return []
        self.attachment = self.attachment._replace(number=number, life="")
        self.window = Window(self._budget)
        self._confirmed = None
        self._passed_over = EARLIEST
        self.state = State.SUBSCRIBING
        return [Subscribe(self.attachment)]

    def found(self, life: str) -> None:
        """Note the life of the source, empty if it names none; forget the positions of an earlier one."""
        if self._life and life != self._life:
            self._attempt = 0
            self._seek_to = self._gap_at = self.furthest = None
            self.reason = self.rival = ""
        self._life = life
        self.attachment = self.attachment._replace(life=life)

    def subscribed(self) -> list[Effect] | Seek:
        """Handle the response to SUBSCRIBE; return a Seek if one is needed first."""
        assert self.state is State.SUBSCRIBING
        if self._seek_to is None:
            return self._attached()
        self.state = State.SEEKING
        return Seek(self.attachment.number, self._seek_to)

    def sought(self) -> list[Effect]:
        """Handle the response to SEEK.

        The source has moved its cursor. A later attachment must not seek there again: the target may have lost its
        entries meanwhile, and the source would take the position for a confirmation of the target.
        """
        assert self.state is State.SEEKING
        self._seek_to = None
        return self._attached()

    def arrived(self, position: Position, size: int, now: float, permits: int = 1, *, is_marker: bool = False) -> None:
        """Count an entry from the source, and the ``permits`` that it used."""
        self._note_arrival(now)
        self.window.arrived(position, size, permits, is_marker=is_marker)

    def run_arrived(self, last: Position, size: int, entries: int, now: float) -> None:
        """Count a run of ``entries`` from the source."""
        self._note_arrival(now)
        self.window.arrived(last, size, entries, entries=entries)

    def passed_over(self, position: Position, permits: int, size: int) -> None:
        """Count an entry that is not carried; it is confirmed together with the entries before it."""
        self.window.passed_over(permits, size)
        self._passed_over = position
        if not self.window.in_flight:
            self._confirmed = position

    def confirmed(self, through: Position, now: float) -> None:
        """Record that everything up to and including ``through`` is durable at the target."""
        self.window.confirmed(through)
        self._confirmed = through if self.window.in_flight else max(through, self._passed_over)
        self._progress_at = now
        # A probe or a repeated entry confirms nothing new: the cause of the parking may follow it.
        if self.furthest is None or through > self.furthest:
            self.furthest = through
            self._attempt = 0
            self._seek_to = self._gap_at = None
            self.reason = self.rival = ""

    def grant(self) -> list[Effect]:
        """Request more entries if there is room."""
        permits = self.window.grant() if self.state is State.ATTACHED else 0
        return [Flow(self.attachment.number, permits)] if permits else []

    def acknowledge(self) -> list[Effect]:
        """Acknowledge the newly confirmed entries at the source."""
        position, self._confirmed = self._confirmed, None
        return [Acknowledge(self.attachment.number, position)] if position is not None and self.live else []

    @property
    def is_caught_up(self) -> bool:
        """Return whether nothing is in flight."""
        return not self.window.in_flight

    def stalled(self, now: float) -> bool:
        """Return whether entries have been in flight for STALL_SECONDS without a receipt."""
        return self.window.in_flight > 0 and now - self._progress_at >= limits.STALL_SECONDS

    def gap(self, reason: str, end: LinkEnd, rng: Random) -> list[Effect]:
        """Handle a gap: the target holds entries up to ``end`` only. Go back there, with a delay for repeated gaps."""
        again = self._gap_at == end
        self._seek_to = self._gap_at = end
        if not end.origin:
            self.furthest = end.position
        return self.refused(reason, rng) if again else [*self._leave(), Retry(0.0)]

    def refused(self, reason: str, rng: Random) -> list[Effect]:
        """Handle a refusal by the target: acknowledge confirmed entries at the source, and park the link.

        Without the acknowledgement, the source would send these entries again in the next attachment, take their
        confirmation for progress, and remove the reason while the link still waits.
        """
        if not self.live:
            return []
        self.is_refused = True
        return [*self.acknowledge(), *self._leave(), *self._park(reason, rng)]

    def closed(self, reason: str, rng: Random, rival: str = "") -> list[Effect]:
        """Handle the end or refusal of the consumer, or the loss of the source: park the link.

        ``rival`` is the other pipeline that holds the link, if that is the reason.
        """
        if not self._leave():
            return []
        self.is_refused = False
        return self._park(reason, rng, rival)

    def detach(self) -> list[Effect]:
        """Detach because the target is not connected, or the topic is not replicated any more."""
        self.reason = self.rival = ""
        return self._leave()

    def displaced(self) -> None:
        """Handle the loss of the link to the next lease, which is final."""
        self._leave()
        self.state = State.DISPLACED

    def _note_arrival(self, now: float) -> None:
        if not self.window.in_flight:
            self._progress_at = now

    def _attached(self) -> list[Effect]:
        self.state = State.ATTACHED
        return self.grant()

    def _leave(self) -> list[Effect]:
        """End the attachment, if there is one."""
        if not self.live:
            return []
        self.window.close()
        self.state = State.WAITING
        return [Close(self.attachment.number)]

    def _park(self, reason: str, rng: Random, rival: str = "") -> list[Effect]:
        self.reason, self.rival = reason, rival
        self._attempt += 1
        return [Retry(PARKING.delay(self._attempt - 1, rng))]
