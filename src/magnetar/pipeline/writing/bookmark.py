"""The newest entry of one source's topic at a foreign target. Pure.

Magnetar tells a replicator which of the source's entries it holds. Apache Pulsar does not, but its log contains the
information: every replicated entry names its origin. A *bookmark* saves reading the whole log. It is a durable
subscription of the target's topic, right before the newest entry of the source that is known to be there. The log is
read from the bookmark to its end before anything is sent.

    state        event                                       next
    -----        -----                                       ----
    SUBSCRIBING  subscribed: from now on nothing is trimmed  FENCING
    FENCING      the fence has its receipt                   ASKING
    ASKING       the last message id arrived                 READING, or READY when nothing is to be read
    READING      the entry at the end is read                READY

The *fence* is a marker, which is not sent to consumers. Brokers send receipts in order. So its receipt proves that
every entry that an earlier writer sent, on a lost connection, is in the log by now, or never will be.

Methods return the effects that the shell must carry out at the target, in order.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.errors import RequestError
from magnetar.base.position import EARLIEST
from magnetar.geo.receiving import Verdict, judge
from magnetar.pipeline import limits
from magnetar.wire.entries.origin import Origin, origin_of

if TYPE_CHECKING:
    from magnetar.base.position import Position
    from magnetar.pipeline.rows import Carried
    from magnetar.wire.proto import pulsar_api_pb2 as pb


class Subscribe(NamedTuple):
    """Open the bookmark's subscription."""


class Fence(NamedTuple):
    """Publish a marker."""


class AskEnd(NamedTuple):
    """Request the last message id, and the position of the bookmark."""


class Flow(NamedTuple):
    """Grant ``permits`` to the target."""

    permits: int


class Mark(NamedTuple):
    """Move the bookmark: everything up to and including ``position`` need not be read again."""

    position: Position


Effect = Subscribe | Fence | AskEnd | Flow | Mark


class State(Enum):
    """The state of a bookmark."""

    SUBSCRIBING = auto()
    FENCING = auto()
    ASKING = auto()
    READING = auto()
    READY = auto()


class Bookmark:
    """The bookmark of one source's topic at a foreign target."""

    __slots__ = ("_end", "_permits", "_source", "last", "state")

    def __init__(self, source: str) -> None:
        """Begin in the unknown state; `start` begins the search."""
        self._source = source
        self._permits = 0
        self._end: Position | None = None
        self.state = State.SUBSCRIBING
        self.last: Position | None = None
        """The newest position of the source up to which the target holds everything; None: it holds nothing."""

    def start(self) -> list[Effect]:
        """Begin the search."""
        return [Subscribe()]

    def subscribed(self) -> list[Effect]:
        """Handle the response to SUBSCRIBE."""
        self.state = State.FENCING
        return [Fence()]

    def fenced(self) -> list[Effect]:
        """Handle the receipt of the fence."""
        self.state = State.ASKING
        return [AskEnd()]

    def told(self, end: Position, mark: Position) -> list[Effect]:
        """Handle the last message id, and the position ``mark`` of the bookmark."""
        if end <= mark:
            self.state = State.READY
            return []
        self.state = State.READING
        self._end = end
        return self._flow()

    def read(self, position: Position, metadata: pb.MessageMetadata) -> list[Effect]:
        """Handle an entry of the log; entries after the last message id are ignored."""
        if self.state is not State.READING or self._end is None:
            return []
        self._permits -= max(1, metadata.num_messages_in_batch)
        origin = self._own(metadata)
        effects: list[Effect] = []
        # The bookmark is before an entry that was known to be there, with all entries before it.
        if origin is not None and (self.last is None or judge(self.last, origin) is Verdict.APPEND):
            self.last = origin.position
            effects.append(Mark(_before(position)))
        if position >= self._end:
            self.state = State.READY
            return effects if self.last is not None else [Mark(position)]
        return [*effects, *self._flow()]

    def resume(self, carried: Carried) -> None:
        """Record the first entry to send.

        If no entry of the source was found, for instance because the log was trimmed, everything before this entry
        counts as held, because the source's cursor is there.
        """
        if self.last is None and carried.link.previous != EARLIEST:
            self.last = carried.link.previous

    def judge(self, carried: Carried) -> Verdict:
        """Decide on the next entry; APPEND counts it as held. SKIP is for markers."""
        link = carried.link
        origin = Origin(self._source, carried.position, link.previous, link.floor, link.link_start)
        verdict = judge(self.last, origin, marker=carried.is_marker)
        if verdict is Verdict.APPEND:
            self.last = carried.position
        return verdict

    def receipt(self, position: Position) -> Mark:
        """Handle the receipt of an entry of the source at ``position`` of the target."""
        return Mark(_before(position))

    def _own(self, metadata: pb.MessageMetadata) -> Origin | None:
        """Return the origin of an entry that this pipeline carried from the source; None for other entries."""
        if metadata.replicated_from != self._source:
            return None
        try:
            return origin_of(metadata)
        except RequestError:
            return None

    def _flow(self) -> list[Effect]:
        if 2 * self._permits > limits.BOOKMARK_READ_AHEAD:
            return []
        permits, self._permits = limits.BOOKMARK_READ_AHEAD - self._permits, limits.BOOKMARK_READ_AHEAD
        return [Flow(permits)]


def _before(position: Position) -> Position:
    """Return the position right before an entry; a cursor accepts it even if no entry is there."""
    return position._replace(entry_id=position.entry_id - 1)
