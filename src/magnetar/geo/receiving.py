"""The receiver's rule of a replication link: each origin position once, in order, without gaps.

The highest received position does not imply that all lower ones were received. So the sender names the previous entry,
and the receiver accepts an entry only if it has that one. Apache Pulsar's replicator does not name it, but sends a
topic's entries in order, and all of them again after a failure. There the order of positions is the rule, and the
receiver must refuse everything after a refused entry.
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
    """The decision about an arriving entry."""

    APPEND = "append"  # new, and nothing is missing before it
    DUPLICATE = "duplicate"  # already stored: answer with a receipt
    GAP = "gap"  # an earlier entry never arrived: the sender must go back
    SKIP = "skip"  # not meant for this cluster: answer with a receipt


def judge(last: Position | None, origin: Origin, *, marker: bool = False) -> Verdict:
    """Decide on an entry by its origin; ``last`` is the newest position held of that origin, None for none.

    An entry that begins a link, or whose sender names no previous entry, has no gap before it. Markers are messages
    between brokers about subscriptions. A marker has no position of its own in a log, and follows the entries before
    it.
    """
    if last is not None and origin.position <= last and not marker:
        return Verdict.DUPLICATE
    if origin.link_start or origin.previous == EARLIEST or (last is not None and origin.previous <= last):
        return Verdict.SKIP if marker else Verdict.APPEND
    return Verdict.GAP


def gap_error(last: Position | None, origin: Origin) -> LinkGapError:
    """Return the error for an entry judged GAP; its text has the position to which the sender must go back."""
    return LinkGapError(gap_text(origin.previous, last), origin.cluster, EARLIEST if last is None else last)


def lacks_entries_before(last: Position | None, origin: Origin) -> bool:
    """Return whether the link begins with this entry and earlier entries are missing here.

    The sender declares the beginning of the link without knowing the entries here: often all earlier ones.
    """
    return origin.link_start and (last is None or origin.previous > last)


def floor_of(last: Position | None, origin: Origin) -> Position:
    """Return the floor of an entry judged APPEND: the sender's floor, but not below the newest held position.

    Without a floor from the sender (Apache Pulsar names none), or at the beginning of a link, entries may be missing.
    Then only the entry itself can be claimed.
    """
    position, floor = origin.position, origin.floor
    if floor != EARLIEST and not (lacks_entries_before(last, origin) and floor == origin.previous):
        if last is not None and last > floor:
            floor = last
        if floor < position:
            return floor
    return Position(position.ledger_id, position.entry_id - 1)  # nothing is between the two
