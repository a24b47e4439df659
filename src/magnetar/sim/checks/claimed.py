"""Acknowledgements of an entry in the state of a replicated subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.sim.checks.model import Entry


def in_state(state: SubscriptionProgress, entry: Entry) -> tuple[bool, int]:
    """Return whether the state claims the whole entry, and a bit set of its unclaimed messages."""
    origin = state.origins.get(entry.cluster)
    if origin is None:
        return False, entry.every
    left = origin.partial.get(entry.position)
    return entry.position in origin.acknowledged, entry.every if left is None else left


def unclaimed(state: SubscriptionProgress, entry: Entry) -> int:
    """Return a bit set of the messages of an entry that the state does not acknowledge."""
    covered, partial = in_state(state, entry)
    if covered or (entry.cluster in state.origins and entry.position <= state.origins[entry.cluster].start):
        return 0
    return partial
