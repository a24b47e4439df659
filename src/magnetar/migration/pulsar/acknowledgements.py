"""The acknowledgement state in the internal stats of Apache Pulsar, as progress in positions of its cluster. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.epochs import Epoch
from magnetar.geo.progress.state import SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_RANGE: Final = re.compile(r"[(\[](-?\d+:-?\d+)\.\.(-?\d+:-?\d+)\]")
"""A range of Pulsar's notation, ``(5:1..5:4]``, which excludes its lower end."""


def progress_in(
    stats: Mapping[str, Any], subscriptions: Collection[str], cluster: str, read_at: float
) -> list[SubscriptionProgress]:
    """Return the progress of subscriptions of a topic, from its PersistentTopicInternalStats.

    The time of the reading in seconds, ``read_at``, is the counter of the epoch. So a state replaces those that were
    read earlier: a subscription that was sought back since then goes back in the target, too. Partly acknowledged
    batches are not in the stats, so all of their messages count as unacknowledged.
    """
    found = []
    for name, cursor in cursors_in(stats, subscriptions):
        state = SubscriptionProgress(name, epoch=Epoch(int(read_at * 1000), cluster))
        state.origin(cluster).acknowledged = IntervalSet.from_pairs(_acknowledged(cursor))
        found.append(state)
    return found


def cursors_in(stats: Mapping[str, Any], subscriptions: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the cursors of subscriptions, by name; Apache Pulsar encodes names in its internal stats."""
    for encoded, cursor in sorted(stats["cursors"].items()):
        name = unquote_plus(encoded)
        if name in subscriptions:
            yield name, cursor


def _acknowledged(cursor: Mapping[str, Any]) -> Iterator[tuple[Position, Position]]:
    """Yield the acknowledged intervals, each without its lower end."""
    mark = Position.parse(cursor["markDeletePosition"])
    if mark > EARLIEST:
        yield EARLIEST, mark
    for form in _RANGE.finditer(cursor["individuallyDeletedMessages"]):
        yield Position.parse(form[1]), Position.parse(form[2])
