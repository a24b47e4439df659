"""The writer's side of one link: the producer for a topic's entries at the target. Pure.

    state     event                                      next
    -----     -----                                      ----
    IDLE      an entry of a new attachment               OPENING
    OPENING   opened                                     OPEN, held entries are sent
    OPEN      gap (the target misses entries before)     OPENING; opened has the target's newest position
    any       refused (any other refusal, or a loss)     IDLE

After a refusal all later entries of the attachment are dropped, and the reader begins a new one. Receipts arrive
strictly in the order of the sends, so a receipt is always for the first outstanding entry.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import EARLIEST
from magnetar.pipeline.connections.reports import Refused
from magnetar.wire.links import LinkEnd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.position import Position
    from magnetar.pipeline.rows import Carried


HELD = 0
"""The sequence id of entries that are not sent."""


class State(Enum):
    """The state of a link."""

    IDLE = auto()
    OPENING = auto()
    OPEN = auto()


class Action(Enum):
    """The action for an offered entry."""

    SEND = auto()
    OPEN = auto()
    """Open a producer; the entry waits for it."""
    HOLD = auto()
    DROP = auto()


class TargetLink:
    """One topic of one source at the target."""

    __slots__ = (
        "_gap",
        "_gap_end",
        "_held",
        "_newest",
        "_outstanding",
        "_refused",
        "_sequence_id",
        "life",
        "source",
        "state",
        "topic",
    )

    def __init__(self, source: str, topic: str) -> None:
        """Begin in state IDLE."""
        self.source = source
        self.topic = topic
        self.life = ""
        """The life of the source according to the newest attachment."""
        self.state = State.IDLE
        self._sequence_id = 0
        self._newest = 0
        """The newest attachment with an offered entry."""
        self._refused = 0
        """The newest refused attachment; entries of it and of older ones are dropped."""
        self._gap = ""
        self._gap_end: LinkEnd | None = None
        """Where the gap is, if it concerns entries in the custody of the source."""
        self._held: deque[Carried] = deque()
        self._outstanding: deque[tuple[int, int, Position, bool, int]] = deque()
        """Sequence id, attachment, position of the last entry, whether it is a marker, and the number of entries.

        The sequence id is HELD for an entry that the target already holds.
        """

    @property
    def outstanding(self) -> int:
        """Return the number of entries that wait for a receipt or for the producer."""
        return len(self._outstanding) + len(self._held)

    @property
    def expects_marker(self) -> bool:
        """Return whether the next receipt is for a marker; such a receipt has no position at any target."""
        return bool(self._outstanding) and self._outstanding[0][3]

    @property
    def next_awaited(self) -> str:
        """Return a prefix for errors about the first outstanding entry or run; empty if there is none."""
        if not self._outstanding:
            return ""
        _, _, last, _, entries = self._outstanding[0]
        return f"entry {last}: " if entries == 1 else f"run of {entries} entries up to {last}: "

    @property
    def next_sequence_id(self) -> int:
        """Return the sequence id of the next entry that is sent."""
        return self._sequence_id + 1

    def is_of_earlier_life(self, carried: Carried) -> bool:
        """Return whether the producer was opened for another life of the source than that of an entry.

        The target must not confuse the lives: the link must be refused first, and a new producer opened.
        """
        return (
            self.state is not State.IDLE
            and carried.attachment.number > self._newest
            and carried.attachment.life != self.life
        )

    def offer(self, carried: Carried) -> Action:
        """Process the next entry, in order."""
        if carried.attachment.number <= self._refused:
            return Action.DROP
        self._newest, self.life = carried.attachment.number, carried.attachment.life
        if self.state is State.OPEN:
            return Action.SEND
        self._held.append(carried)
        if self.state is State.OPENING:
            return Action.HOLD
        self.state = State.OPENING
        return Action.OPEN

    def missed(self, carried: Carried) -> None:
        """Record that an entry is dropped because the target is not connected; the reader attaches again.

        Later entries of its attachment must be dropped, too: a source of Apache Pulsar names no previous entry, so the
        target could not detect the gap.
        """
        self._newest = self._refused = carried.attachment.number

    def sent(self, carried: Carried) -> int:
        """Record an entry or a run as sent; return its sequence id."""
        assert self.state is State.OPEN
        self._sequence_id += 1
        self._outstanding.append(
            (self._sequence_id, carried.attachment.number, carried.last, carried.is_marker, carried.entries),
        )
        return self._sequence_id

    def opened(self, last: Position | None) -> tuple[list[Carried], Refused | None]:
        """Record that the producer is open and the target holds entries up to ``last`` (None: none).

        Returns the entries to send now, and the deferred report of a gap.
        """
        assert self.state is State.OPENING
        self.state = State.OPEN
        end = self._gap_end or LinkEnd("", EARLIEST if last is None else last)
        report = Refused(self._refused, self._gap, end) if self._gap else None
        self._gap, self._gap_end = "", None
        held = [carried for carried in self._held if carried.attachment.number > self._refused]
        self._held.clear()
        return held, report

    def receipt(self, sequence_id: int) -> tuple[int, Position]:
        """Process a receipt for the first outstanding entry; return its attachment and position.

        Raises RemoteProtocolError with both ids for a receipt out of order.
        """
        return self._receipted(0, sequence_id, f"receipt for sequence id {sequence_id}")

    def receipt_at(self, position: Position) -> tuple[int, Position]:
        """Process a receipt that has the entry's position at the source, as ``receipt``."""
        return self._receipted(2, position, f"receipt for the entry at {position}")

    def held(self, carried: Carried) -> None:
        """Record an entry that the target already holds; ``settled`` yields it when all before it are durable."""
        self._outstanding.append((HELD, carried.attachment.number, carried.position, False, 1))

    def settled(self) -> Iterator[tuple[int, Position]]:
        """Remove and yield the held entries without outstanding entries before them."""
        while self._outstanding and self._outstanding[0][0] == HELD:
            yield self._outstanding.popleft()[1:3]

    def gap(self, reason: str, end: LinkEnd | None = None) -> bool:
        """Handle a gap before the first outstanding entry; return whether to open a new producer.

        ``end`` says where it is, if the entry is in the custody of the source. False if the gap is already being
        handled.
        """
        if self.state is not State.OPEN:
            return False
        self._refuse()
        self._gap, self._gap_end = reason, end
        self.state = State.OPENING
        return True

    def refused(self, reason: str) -> Refused | None:
        """Handle the loss or refusal of the producer; return the report, None without a producer.

        A producer without entries in flight is reported too. The target may have lost its data: the reader must attach
        again, so that the source verifies the newest entry at the target.
        """
        was_open = self.state is not State.IDLE
        self._refuse()
        self._gap, self._gap_end = "", None
        self.state = State.IDLE
        return Refused(self._refused, reason) if was_open else None

    def _receipted(self, part: int, named: int | Position, what: str) -> tuple[int, Position]:
        """Remove and return the first outstanding entry; ``part`` of it must equal the receipt's ``named``."""
        expected = self._outstanding[0][part] if self._outstanding else None
        if named != expected:
            message = f"{what} of {self.topic}, expected {expected}"
            raise RemoteProtocolError(message)
        return self._outstanding.popleft()[1:3]

    def _refuse(self) -> None:
        self._refused = self._newest
        self._outstanding.clear()
        self._held.clear()
