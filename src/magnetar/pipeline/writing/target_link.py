"""The writer's side of one link: the producer through which a topic's entries reach the target. Pure.

    state     event                                      next
    -----     -----                                      ----
    IDLE      an entry of a new attachment               OPENING
    OPENING   opened                                     OPEN, what was held is sent
    OPEN      gap (the target misses entries before)     OPENING; opened then tells how far the target is
    any       refused (any other refusal, or a loss)     IDLE

After a refusal the rest of that attachment is dropped: the reader begins a new one. Receipts come strictly in the
order of the sends, so the first outstanding entry is always the one that a receipt is for.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from magnetar.base.errors import RemoteProtocolError
from magnetar.base.position import EARLIEST
from magnetar.pipeline.connections.reports import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.base.position import Position
    from magnetar.pipeline.rows import Carried


HELD = 0
"""The sequence id of no entry that is sent."""


class State(Enum):
    """Where a link stands."""

    IDLE = auto()
    OPENING = auto()
    OPEN = auto()


class Action(Enum):
    """What to do with an entry that was offered."""

    SEND = auto()
    OPEN = auto()
    """Open a producer; the entry is held until it is there."""
    HOLD = auto()
    DROP = auto()


class TargetLink:
    """One topic of one source at the target."""

    __slots__ = (
        "_gap",
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
        """Wait for the first entry."""
        self.source = source
        self.topic = topic
        self.life = ""
        """The life of the source, as the attachment of the newest entry names it."""
        self.state = State.IDLE
        self._sequence_id = 0
        self._newest = 0
        """Newest attachment that an entry was offered of."""
        self._refused = 0
        """Newest attachment that was refused; its entries, and older ones, are dropped."""
        self._gap = ""
        self._held: deque[Carried] = deque()
        self._outstanding: deque[tuple[int, int, Position, bool]] = deque()
        """Sequence id, attachment, position, whether it is a marker; the sequence id is HELD for what the target held
        before it came."""

    @property
    def outstanding(self) -> int:
        """Entries that were sent and have no receipt, or wait for the producer."""
        return len(self._outstanding) + len(self._held)

    @property
    def expects_marker(self) -> bool:
        """Whether the next receipt is for a marker: such a one names no position, whoever writes it."""
        return bool(self._outstanding) and self._outstanding[0][3]

    @property
    def next_awaited(self) -> str:
        """Names the first outstanding entry at the head of a message about it; empty where there is none."""
        return f"entry {self._outstanding[0][2]}: " if self._outstanding else ""

    def is_of_earlier_life(self, carried: Carried) -> bool:
        """Whether the producer was opened for another life of the source than the one that an entry comes from.

        The target must not take the entry for one of that life: it has to be refused first, and a producer opened anew.
        """
        return (
            self.state is not State.IDLE
            and carried.attachment.number > self._newest
            and carried.attachment.life != self.life
        )

    def offer(self, carried: Carried) -> Action:
        """Take the next entry, in order."""
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

    def sent(self, carried: Carried) -> int:
        """Count an entry as sent; returns the sequence id to send it under."""
        assert self.state is State.OPEN
        self._sequence_id += 1
        self._outstanding.append(
            (self._sequence_id, carried.attachment.number, carried.position, carried.is_marker),
        )
        return self._sequence_id

    def opened(self, last: Position | None) -> tuple[list[Carried], Refused | None]:
        """Hear that the producer is there and that the target holds entries up to ``last`` (None: none).

        Returns the entries to send now, and the report that a gap had to wait for.
        """
        assert self.state is State.OPENING
        self.state = State.OPEN
        report = Refused(self._refused, self._gap, EARLIEST if last is None else last) if self._gap else None
        self._gap = ""
        held = [carried for carried in self._held if carried.attachment.number > self._refused]
        self._held.clear()
        return held, report

    def receipt(self, sequence_id: int) -> tuple[int, Position]:
        """Hear that the first outstanding entry is durable at the target; returns its attachment and position.

        Raises RemoteProtocolError, naming both ids, for a receipt out of order.
        """
        return self._receipted(0, sequence_id, f"receipt for sequence id {sequence_id}")

    def receipt_at(self, position: Position) -> tuple[int, Position]:
        """As ``receipt``, where the receipt names the entry's position at the source."""
        return self._receipted(2, position, f"receipt for the entry at {position}")

    def held(self, carried: Carried) -> None:
        """Count an entry that the target holds already; ``settled`` tells when all before it are durable too."""
        self._outstanding.append((HELD, carried.attachment.number, carried.position, False))

    def settled(self) -> Iterator[tuple[int, Position]]:
        """Take the entries that were held already and have nothing outstanding before them."""
        while self._outstanding and self._outstanding[0][0] == HELD:
            yield self._outstanding.popleft()[1:3]

    def gap(self, reason: str) -> bool:
        """Hear that the target misses entries before the first outstanding one; True: open a new producer.

        False when the gap is already being looked into.
        """
        if self.state is not State.OPEN:
            return False
        self._refuse()
        self._gap = reason
        self.state = State.OPENING
        return True

    def refused(self, reason: str) -> Refused | None:
        """Hear that the producer is gone or was not granted; returns the report, None where there was no producer.

        A producer that had nothing under way is reported too. The target may have lost its data: the reader must attach
        again, so that the source verifies what the target holds.
        """
        was_open = self.state is not State.IDLE
        self._refuse()
        self._gap = ""
        self.state = State.IDLE
        return Refused(self._refused, reason) if was_open else None

    def _receipted(self, part: int, named: int | Position, what: str) -> tuple[int, Position]:
        """Take the first outstanding entry, whose ``part`` the receipt must have named."""
        expected = self._outstanding[0][part] if self._outstanding else None
        if named != expected:
            message = f"{what} of {self.topic}, expected {expected}"
            raise RemoteProtocolError(message)
        return self._outstanding.popleft()[1:3]

    def _refuse(self) -> None:
        self._refused = self._newest
        self._outstanding.clear()
        self._held.clear()
