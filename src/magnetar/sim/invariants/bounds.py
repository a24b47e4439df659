"""Bounds: when everything is consumed and trimmed, what a broker keeps does not depend on what it has handled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.ledger.segment import segment_path
from magnetar.sim.invariants.base import Invariant
from magnetar.sim.site import DIRECTORY, SEGMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.sim.replica import Replica
    from magnetar.sim.site import Site

ENTRIES_MAX = 24
"""Entries of a topic that may be left: ledgers that still take appends, or that a snapshot needs, are not trimmed."""

RANGES_MAX = 0
"""Ranges and batches behind the mark-delete position of a subscription without backlog."""

LEDGERS_MAX = 6
"""Ledgers of a topic that may be left."""

DISK_BYTES_MAX = 12 * SEGMENT_BYTES
"""Bytes of the log's files that may be left, for each topic: some segments, of which cursors may still need records."""


class Bounds(Invariant):
    """See the module."""

    def at_end(self) -> str:
        """See Invariant: everything is consumed, so trim, and look."""
        for site in self.world.running():
            site.loop.create_task(site.maintenance.trim())
        for site in self.world.running():
            wrong = next(self._too_much_in(site), "")
            if wrong:
                return f"{site.name} keeps {wrong}"
        return ""

    def _too_much_in(self, site: Site) -> Iterator[str]:
        for replica in site.replicas.values():
            for what, count, most in _kept(replica):
                if count > most:
                    yield f"{count} {what} of {replica.name.local_name}, and {most} is enough"
        size = sum(len(node.data) for node in site.disk.nodes.values()) - _beyond_a_segment(site)
        most = DISK_BYTES_MAX * len(site.replicas)
        if size > most:
            yield f"{size} bytes on its disk, and {most} is enough"


def _beyond_a_segment(site: Site) -> int:
    """Bytes by which a single large run made a segment longer than usual that goes with the next one that is sealed.

    The segment that is written to, and the newest sealed one with the state that a start reads, stay without need.
    """
    unneeded = [each for each in site.store.segments()[-2:] if not site.store.pinned_by(each)]
    sizes = (len(site.disk.nodes[segment_path(DIRECTORY, each)].data) for each in unneeded)
    return sum(max(0, size - SEGMENT_BYTES) for size in sizes)


def _kept(replica: Replica) -> Iterator[tuple[str, int, int]]:
    """What a replica keeps, how much of it, and how much is enough."""
    topic = replica.topic
    if topic is None:
        return
    yield "entries", topic.ledger.entries, ENTRIES_MAX
    yield "ledgers", len(topic.ledger.ledgers()), LEDGERS_MAX
    yield "delayed entries", len(topic.delayed.withheld), ENTRIES_MAX
    for subscription in topic.subscriptions.values():
        if subscription.backlog:
            continue  # with markers, of entries that the only cluster with consumers does not get
        state = subscription.cursor.state
        yield f"deleted ranges in {subscription.name}", state.deleted_ranges_count, RANGES_MAX
        yield f"partial batches in {subscription.name}", len(list(state.partial_batches())), RANGES_MAX
