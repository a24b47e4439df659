"""Splitting of a progress state into parts that can be merged one by one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.state import SubscriptionProgress

if TYPE_CHECKING:
    from collections.abc import Iterator


def in_parts(state: SubscriptionProgress, items_max: int) -> Iterator[SubscriptionProgress]:
    """Yield parts of ``state``, at least one; merging all of them in any order has the effect of merging ``state``.

    Each part has the epoch and all starts, and at most ``items_max`` intervals and partly acknowledged batches. A small
    state is yielded itself.
    """
    items = sum(len(origin.acknowledged) + len(origin.partial) for origin in state.origins.values())
    if items <= items_max:
        yield state
        return
    starts = state.starts()
    for cluster, origin in state.origins.items():
        for first in range(0, len(origin.acknowledged), items_max):
            stop = min(first + items_max, len(origin.acknowledged))
            part = SubscriptionProgress(state.name, starts, state.epoch)
            part.origin(cluster).acknowledged = IntervalSet.from_bounds(origin.acknowledged.bounds(first, stop))
            yield part
        batches = iter(origin.partial)
        while chunk := list(islice(batches, items_max)):
            part = SubscriptionProgress(state.name, starts, state.epoch)
            for position, remaining in chunk:
                part.origin(cluster).narrow(position, remaining)
            yield part


def takes_nothing_back(state: SubscriptionProgress, incoming: SubscriptionProgress) -> bool:
    """Return whether merging ``incoming`` only adds acknowledgements to ``state``: no newer epoch, no earlier start."""
    if state.deleted or incoming.deleted or incoming.epoch != state.epoch:
        return False
    starts = incoming.starts()
    return all(origin.start <= starts.get(cluster, EARLIEST) for cluster, origin in state.origins.items())
