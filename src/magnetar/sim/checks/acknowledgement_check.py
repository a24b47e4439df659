"""P3: no message is skipped. Each acknowledged message was acknowledged by a client, or is outside the subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.checks.claimed import in_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.state import SubscriptionProgress
    from magnetar.sim.checks.model import Entry, Lifetime, Model
    from magnetar.sim.site import Replica


class AcknowledgementCheck:
    """Compares the acknowledged messages of subscriptions with the acknowledgements that clients requested."""

    def __init__(self, model: Model, violated: Callable[[str], None]) -> None:
        """Begin without results."""
        self._model = model
        self._violated = violated
        self._settled: dict[tuple[str, str], tuple[object, set[str]]] = {}
        """By cluster and subscription: the epoch and starts, and the texts that were found rightly acknowledged."""
        self._looked_at: dict[tuple[str, str], object] = {}
        """By cluster and subscription: the state in which everything was found rightly acknowledged."""

    def forget_findings(self, cluster: str) -> None:
        """Forget the results for a cluster."""
        self._settled = {key: found for key, found in self._settled.items() if key[0] != cluster}
        self._looked_at = {key: found for key, found in self._looked_at.items() if key[0] != cluster}

    def check(self, replica: Replica, subscription: Subscription, state: SubscriptionProgress) -> None:
        """Check that each acknowledged message was acknowledged in this epoch, or is outside the subscription."""
        lifetime = self._model.lifetime(replica.cluster, subscription.name, state.epoch)
        starts = state.starts()
        if not lifetime.is_known:
            return
        looked_at = self._look_at(replica, subscription, state)
        if self._looked_at.get((replica.cluster, subscription.name)) == looked_at:
            return  # requests only add acknowledgements, so an unchanged state is still right
        self._looked_at[replica.cluster, subscription.name] = looked_at
        settled = self._settled_in(replica, subscription, state, starts)
        first = subscription.topic.ledger.first_position
        places = self._model.logs[replica.cluster].places
        for entries in self._model.published.values():
            for entry in entries:
                if entry.text not in settled:
                    asked = self._asked(lifetime, entry)
                    is_outside = entry.position <= starts.get(entry.cluster, EARLIEST)
                    place = places.get(entry.text)
                    if place is not None and place < first:
                        place = None  # its ledger was trimmed: no consumer here can get it any more
                    wrong, done = self._judge(subscription, entry, place, asked, is_outside=is_outside)
                    if is_outside and asked != entry.every and not lifetime.is_outside(entry):
                        wrong = f"lies outside, where it starts at {starts[entry.cluster]}: nobody asked for that"
                    if wrong:
                        where = f"{subscription.name} in {replica.cluster}, epoch {state.epoch}"
                        self._violated(f"P3: {entry.text} of {where}, {wrong}")
                    elif done:
                        settled.add(entry.text)

    def _asked(self, lifetime: Lifetime, entry: Entry) -> int:
        """Return the bit set of the messages that may count as acknowledged."""
        has_former_life = self._model.generations[entry.cluster] > 0
        if has_former_life and lifetime.is_outside(entry):
            # Returned entries may follow the start in the log. The state then begins before these, and has
            # acknowledgements of all others before the start, also of those that have not returned.
            return entry.every
        return lifetime.acknowledged.get(entry.text, 0)

    def _judge(
        self, subscription: Subscription, entry: Entry, place: Position | None, asked: int, *, is_outside: bool
    ) -> tuple[str, bool]:
        """Return the error about one entry, and whether the entry is finished and rightly acknowledged.

        ``asked`` is the bit set of requested acknowledgements; ``place`` is the local position, None if there is none.
        """
        assert subscription.progress is not None
        cursor = subscription.cursor.state
        done = place is not None and (place <= cursor.mark_delete_position or cursor.is_deleted(place))
        covered, unclaimed = in_state(subscription.progress.state, entry)
        held_back = cursor.remaining(place) if place is not None and not done else None
        left = entry.every if held_back is None else held_back
        if (done or covered) and not is_outside and asked != entry.every:
            return f"counts as acknowledged, but clients acknowledged {asked:b} only", done
        if place is not None and not done and (covered or is_outside):
            return "is acknowledged in its state, but would be delivered again", done
        if (entry.every & ~(left & unclaimed)) & ~asked:
            return (
                f"counts as acknowledged except for {left & unclaimed:b}, but clients acknowledged {asked:b} only",
                done,
            )
        return "", done

    def _look_at(self, replica: Replica, subscription: Subscription, state: SubscriptionProgress) -> object:
        """Return a snapshot of all state that determines acknowledgements."""
        cursor, model = subscription.cursor.state, self._model
        acknowledged = cursor.mark_delete_position, list(cursor.deleted()), list(cursor.partial_batches())
        known = len(model.logs[replica.cluster].entries), sum(map(len, model.published.values()))
        return state.copy(), acknowledged, subscription.topic.ledger.first_position, known

    def _settled_in(
        self, replica: Replica, subscription: Subscription, state: SubscriptionProgress, starts: dict[str, Position]
    ) -> set[str]:
        """Return the texts found rightly acknowledged, as long as nothing can have become unacknowledged."""
        key, same = (replica.cluster, subscription.name), (state.epoch, starts, replica.crashes)
        if key not in self._settled or self._settled[key][0] != same:
            self._settled[key] = (same, set())
        return self._settled[key][1]
