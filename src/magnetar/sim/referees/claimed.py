"""What the state of a replicated subscription claims of an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.sim.referees.model import Entry


def in_state(state: SubscriptionProgress, entry: Entry) -> tuple[bool, int]:
    """Whether an entry is claimed as a whole, and which of its messages are not claimed."""
    origin = state.origins.get(entry.cluster)
    if origin is None:
        return False, entry.every
    left = origin.partial.get(entry.position)
    return entry.position in origin.acknowledged, entry.every if left is None else left


def unclaimed(state: SubscriptionProgress, entry: Entry) -> int:
    """Which messages of an entry a state does not say to be acknowledged."""
    covered, partial = in_state(state, entry)
    if covered or (entry.cluster in state.origins and entry.position <= state.origins[entry.cluster].start):
        return 0
    return partial
