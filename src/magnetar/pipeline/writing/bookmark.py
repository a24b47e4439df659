"""How far a foreign target has come with one source's topic. Pure.

Magnetar tells a replicator which of the source's entries it holds. Apache Pulsar does not, but its log says it: every
replicated entry names its origin. So that the log need not be read from its beginning, a *bookmark* stands in it, a
durable subscription of the target's topic: right before the newest entry of the source that is known to be there.
Before anything is sent, the log is read from the bookmark to its end.

    state        event                                       next
    -----        -----                                       ----
    SUBSCRIBING  subscribed: from now on nothing is trimmed  FENCING
    FENCING      the fence has its receipt                   ASKING
    ASKING       the end is told                             READING, or READY when nothing is to be read
    READING      the entry at the end is read                READY

The *fence* is a marker, which no consumer sees. Brokers receipt in order, so its receipt says that whatever a writer
before this one had sent, on a connection that is gone, is in the log by now, or never will be.

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
    """Open the bookmark."""


class Fence(NamedTuple):
    """Publish a marker."""


class AskEnd(NamedTuple):
    """Ask for the last message, and where the bookmark stands."""


class Flow(NamedTuple):
    """Let the target send ``permits`` messages more."""

    permits: int


class Mark(NamedTuple):
    """Move the bookmark: everything up to and including ``position`` need not be read again."""

    position: Position


Effect = Subscribe | Fence | AskEnd | Flow | Mark


class State(Enum):
    """How far the bookmark is."""

    SUBSCRIBING = auto()
    FENCING = auto()
    ASKING = auto()
    READING = auto()
    READY = auto()


class Bookmark:
    """One source's topic at a foreign target."""

    __slots__ = ("_end", "_permits", "_source", "last", "state")

    def __init__(self, source: str) -> None:
        """Know nothing yet; `start` begins to find out."""
        self._source = source
        self._permits = 0
        self._end: Position | None = None
        self.state = State.SUBSCRIBING
        self.last: Position | None = None
        """The newest position of the source up to which the target holds everything; None: it holds nothing."""

    def start(self) -> list[Effect]:
        """Begin."""
        return [Subscribe()]

    def subscribed(self) -> list[Effect]:
        """Hear that the bookmark is open."""
        self.state = State.FENCING
        return [Fence()]

    def fenced(self) -> list[Effect]:
        """Hear that the marker is durable."""
        self.state = State.ASKING
        return [AskEnd()]

    def told(self, end: Position, mark: Position) -> list[Effect]:
        """Hear where the log's last message is, and that the bookmark stands at ``mark``."""
        if end <= mark:
            self.state = State.READY
            return []
        self.state = State.READING
        self._end = end
        return self._flow()

    def read(self, position: Position, metadata: pb.MessageMetadata) -> list[Effect]:
        """Take an entry of the log; what comes after the end was told of is of no interest."""
        if self.state is not State.READING or self._end is None:
            return []
        self._permits -= max(1, metadata.num_messages_in_batch)
        origin = self._own(metadata)
        effects: list[Effect] = []
        # The bookmark stands before an entry that was known to be there, and so was all before it.
        if origin is not None and (self.last is None or judge(self.last, origin) is Verdict.APPEND):
            self.last = origin.position
            effects.append(Mark(_before(position)))
        if position >= self._end:
            self.state = State.READY
            return effects if self.last is not None else [Mark(position)]
        return [*effects, *self._flow()]

    def resume(self, carried: Carried) -> None:
        """Hear which entry comes first.

        Where no entry of the source was found, as after the log was trimmed, what the source was told to be confirmed
        counts, which is all before that entry.
        """
        if self.last is None and carried.link.previous != EARLIEST:
            self.last = carried.link.previous

    def judge(self, carried: Carried) -> Verdict:
        """Decide on the next entry; APPEND counts it as held, for what follows is behind it. SKIP is for markers."""
        link = carried.link
        origin = Origin(self._source, carried.position, link.previous, link.floor, link.link_start)
        verdict = judge(self.last, origin, marker=carried.is_marker)
        if verdict is Verdict.APPEND:
            self.last = carried.position
        return verdict

    def receipt(self, position: Position) -> Mark:
        """Hear that an entry of the source is durable at ``position`` of the target."""
        return Mark(_before(position))

    def _own(self, metadata: pb.MessageMetadata) -> Origin | None:
        """The origin of an entry of the source; None for any other, and for one that somebody else brought."""
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
    """The place right before an entry, which a cursor can stand at even where nothing is."""
    return position._replace(entry_id=position.entry_id - 1)
