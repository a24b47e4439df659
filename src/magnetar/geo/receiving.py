"""The receiving end of a replication link: each origin position once, in order, with no gap.

"Highest seen" is never taken for "all below are here": the sender names the entry before, and the receiver takes an
entry only when it has that one. Apache Pulsar's replicator does not name it, but sends a topic's entries in their
order and, after a failure, all of them again: there the order of the positions is the rule, and the receiver must
refuse all that follows what it refused.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from magnetar.base.errors import LinkGapError
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.links import gap_text

if TYPE_CHECKING:
    from magnetar.wire.entries.origin import Origin


class Verdict(Enum):
    """What to do with an arriving entry."""

    APPEND = "append"  # new, and nothing is missing before it
    DUPLICATE = "duplicate"  # held already: answer as if it had been stored
    GAP = "gap"  # something before it never arrived: the sender must go back
    SKIP = "skip"  # nothing for this cluster: answer as if it had been stored


def judge(last: Position | None, origin: Origin, *, marker: bool = False) -> Verdict:
    """Decide on an entry by its origin; ``last`` is the newest position held of that origin, None for none.

    An entry that begins a link, or whose sender names no entry before it, has no gap before it. A marker is what
    brokers tell each other about subscriptions: it has no place of its own in a log, and comes behind those before it.
    """
    if last is not None and origin.position <= last and not marker:
        return Verdict.DUPLICATE
    if origin.link_start or origin.previous == EARLIEST or (last is not None and origin.previous <= last):
        return Verdict.SKIP if marker else Verdict.APPEND
    return Verdict.GAP


def gap_error(last: Position | None, origin: Origin) -> LinkGapError:
    """The refusal of an entry judged GAP; its text names what the sender has to go back to."""
    return LinkGapError(gap_text(origin.previous, last))


def lacks_entries_before(last: Position | None, origin: Origin) -> bool:
    """Whether the link begins with this entry and there is something before it that is not held.

    A sender declares where its link begins without knowing what is held: often all of what came before.
    """
    return origin.link_start and (last is None or origin.previous > last)


def floor_of(last: Position | None, origin: Origin) -> Position:
    """The floor of an entry judged APPEND: what the sender said, never below what is held, never a guess.

    A sender that names no floor, as Apache Pulsar does not, may have kept entries back, and one whose link begins
    here has: then only the entry itself can be claimed.
    """
    position = origin.position
    nothing_between = Position(position.ledger_id, position.entry_id - 1)
    if origin.floor == EARLIEST or (lacks_entries_before(last, origin) and origin.floor == origin.previous):
        return nothing_between
    floor = origin.floor if last is None else max(origin.floor, last)
    return floor if floor < position else nothing_between
