"""Bounds: after everything is consumed and trimmed, the state of a broker does not grow with its past traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.sim.limits import LEDGER_ENTRIES
from magnetar.sim.simulation import Invariant
from magnetar.sim.site import SEGMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.sim.site import Replica, Site

ENTRIES_MAX = 24
"""Maximum number of entries left in a topic: open ledgers, and ledgers that a snapshot needs, are not trimmed.

A ledger that has more entries than its limit because of a group, such as a run of a link, counts with the limit.
"""

RANGES_MAX = 0
"""Maximum number of ranges and batches after the mark-delete position of a subscription without backlog."""

LEDGERS_MAX = 6
"""Maximum number of ledgers left in a topic."""

DISK_BYTES_MAX = 12 * SEGMENT_BYTES
"""Maximum bytes of log files left for each topic: some segments, of which cursors may still need records.

A segment that is longer because of a group of large messages counts with the usual size.
"""


class Bounds(Invariant):
    """See the module."""

    def at_end(self) -> str:
        """See Invariant. Trims first, as everything is consumed."""
        for site in self.simulation.running():
            site.loop.create_task(site.maintenance.trim())
        for site in self.simulation.running():
            wrong = next(self._too_much_in(site), "")
            if wrong:
                return f"{site.name} keeps {wrong}"
        return ""

    def _too_much_in(self, site: Site) -> Iterator[str]:
        for replica in site.replicas.values():
            for what, count, most in _kept(replica):
                if count > most:
                    yield f"{count} {what} of {replica.name.local_name}, and {most} is enough"
        size = sum(min(len(node.data), SEGMENT_BYTES) for node in site.disk.nodes.values())
        most = DISK_BYTES_MAX * len(site.replicas)
        if size > most:
            yield f"{size} bytes on its disk, and {most} is enough"


def _kept(replica: Replica) -> Iterator[tuple[str, int, int]]:
    """Yield the kinds of state of a replica, with their amounts and limits."""
    topic = replica.topic
    if topic is None:
        return
    entries = sum(min(ledger.entries, LEDGER_ENTRIES) for ledger in topic.ledger.ledgers())
    yield "entries", entries, ENTRIES_MAX
    yield "ledgers", len(topic.ledger.ledgers()), LEDGERS_MAX
    yield "delayed entries", len(topic.delayed.withheld), ENTRIES_MAX
    for subscription in topic.subscriptions.values():
        if subscription.backlog:
            continue  # with markers, entries that the only cluster with consumers does not get
        state = subscription.cursor.state
        yield f"deleted ranges in {subscription.name}", state.deleted_ranges_count, RANGES_MAX
        yield f"partial batches in {subscription.name}", len(list(state.partial_batches())), RANGES_MAX
