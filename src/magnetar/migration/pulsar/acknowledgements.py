"""The acknowledgement state in the internal stats of Apache Pulsar, as progress in positions of its cluster. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.epochs import Epoch
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.wire.links import link_subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

_RANGE: Final = re.compile(r"[(\[](-?\d+:-?\d+)\.\.(-?\d+:-?\d+)\]")
"""A range of Pulsar's notation, ``(5:1..5:4]``, which excludes its lower end."""


def progress_in(
    stats: Mapping[str, Any],
    subscriptions: Collection[str],
    cluster: str,
    read_at: float,
    claims: Callable[[IntervalSet], Mapping[str, IntervalSet]] | None = None,
) -> list[SubscriptionProgress]:
    """Return the progress of subscriptions of a topic, from its PersistentTopicInternalStats.

    The time of the reading in seconds, ``read_at``, is the counter of the epoch. So a state replaces those that were
    read earlier: a subscription that was sought back since then goes back in the target, too. ``claims`` returns the
    acknowledged entries of each cluster for acknowledged positions of the source; by default, all are of the source.
    Partly acknowledged batches are not in the stats, so all of their messages count as unacknowledged.
    """
    found = []
    for name, cursor in cursors_in(stats, subscriptions):
        state = SubscriptionProgress(name, epoch=Epoch(int(read_at * 1000), cluster))
        acknowledged = acknowledged_in(cursor)
        for origin, claimed in ({cluster: acknowledged} if claims is None else claims(acknowledged)).items():
            state.origin(origin).acknowledged = claimed
        found.append(state)
    return found


def cursors_in(stats: Mapping[str, Any], subscriptions: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the cursors of subscriptions, by name; Apache Pulsar encodes names in its internal stats."""
    for encoded, cursor in sorted(stats["cursors"].items()):
        name = unquote_plus(encoded)
        if name in subscriptions:
            yield name, cursor


def acknowledged_in(cursor: Mapping[str, Any]) -> IntervalSet:
    """Return the acknowledged positions of a cursor."""
    return IntervalSet.from_pairs(_acknowledged(cursor))


def has_carried(stats: Mapping[str, Any], target: str, end: Position) -> bool:
    """Return whether the link to ``target`` has carried everything up to and including ``end``."""
    link = stats["cursors"].get(link_subscription(target, is_foreign=True))
    return link is not None and Position.parse(link["markDeletePosition"]) >= end


def end_of(stats: Mapping[str, Any]) -> Position:
    """Return the position of the last entry."""
    return Position.parse(stats["lastConfirmedEntry"])


def first_mark(stats: Mapping[str, Any], subscriptions: Collection[str]) -> Position:
    """Return the first mark-delete position of subscriptions; the end of the log if there are none."""
    marks = [Position.parse(cursor["markDeletePosition"]) for _, cursor in cursors_in(stats, subscriptions)]
    return min(marks, default=end_of(stats))


def ledger_sizes(stats: Mapping[str, Any]) -> dict[int, int]:
    """Return the number of entries of each ledger; the list in the stats states those of closed ledgers only."""
    last = end_of(stats)
    found = {each["ledgerId"]: each["entries"] for each in stats["ledgers"]}
    return found | {last.ledger_id: last.entry_id + 1}


def _acknowledged(cursor: Mapping[str, Any]) -> Iterator[tuple[Position, Position]]:
    """Yield the acknowledged intervals, each without its lower end."""
    mark = Position.parse(cursor["markDeletePosition"])
    if mark > EARLIEST:
        yield EARLIEST, mark
    for form in _RANGE.finditer(cursor["individuallyDeletedMessages"]):
        yield Position.parse(form[1]), Position.parse(form[2])
