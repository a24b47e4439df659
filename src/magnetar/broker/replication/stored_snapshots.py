"""The snapshots of PIP-33 that survive a restart, in a property of the managed ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.geo.snapshots.cache import SnapshotCache
from magnetar.geo.snapshots.codec import decode_snapshots, encode_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from magnetar.base.position import Position
    from magnetar.geo.snapshots.cache import Snapshot
    from magnetar.ledger.managed_ledger import ManagedLedger

SNAPSHOTS_PROPERTY: Final = "magnetar.snapshots"
"""Managed-ledger property: the newest snapshots, so that updates continue within a backlog after a restart."""

SAVE_INTERVAL_S: Final = 30.0
"""Shortest interval between two writes of the property, except at closing. A crash loses snapshots of this time."""


class StoredSnapshots:
    """The newest snapshots of one topic; ``now`` is monotonic, in seconds."""

    def __init__(self, ledger: ManagedLedger, limit: int, now: float) -> None:
        """Read the stored snapshots; hold at most ``limit``."""
        self._ledger = ledger
        self.recent = SnapshotCache(limit, decode_snapshots(ledger.properties.get(SNAPSHOTS_PROPERTY)))
        self._saved_at = now
        self._unsaved = False

    def add(self, snapshot: Snapshot, now: float) -> bool:
        """Add a snapshot; return whether it is time to save."""
        self.recent.add(snapshot, self._ledger.count)
        self._unsaved = True
        is_due = now >= self._saved_at + SAVE_INTERVAL_S
        if is_due:
            self._saved_at = now
        return is_due

    def save(self, passed: Position | None) -> None:
        """Store the snapshots that a subscription has not passed, and the last one that all have passed.

        All subscriptions are at ``passed`` or later; None if there are none. The last update may have been lost: after
        a restart, it is sent again.
        """
        if self._unsaved:
            kept = list(self.recent)
            while passed is not None and len(kept) > 1 and kept[1].local <= passed:
                del kept[0]
            self._store(kept)

    def save_unpassed(self, caches: Iterable[SnapshotCache]) -> None:
        """Store the snapshots that a subscription has in its cache; all updates for the others have arrived."""
        unpassed = {snapshot.snapshot_id for cache in caches for snapshot in cache}
        self._store([snapshot for snapshot in self.recent if snapshot.snapshot_id in unpassed])

    def _store(self, kept: list[Snapshot]) -> None:
        self._unsaved = False
        text = encode_snapshots(kept)
        if text != self._ledger.properties.get(SNAPSHOTS_PROPERTY, encode_snapshots([])):
            self._ledger.note_property(SNAPSHOTS_PROPERTY, text)
