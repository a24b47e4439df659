"""Operations on one topic: operators acknowledge entries, and brokers expire or evict them, for all consumers."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from magnetar.base.position import LATEST
from magnetar.sim.checks.times import DRIFTED_S

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from magnetar.base.position import Position
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.geo.progress.epochs import Epoch
    from magnetar.sim.checks.checker import Checker
    from magnetar.sim.checks.model import Entry, Model
    from magnetar.sim.checks.readings import Readings
    from magnetar.sim.site import Replica

    Then = Callable[[], None]
    Note = Callable[[str, str, str], None]


class Operations:
    """Records in the model which acknowledgements are allowed from now on, and which are confirmed."""

    def __init__(self, model: Model, checker: Checker, readings: Readings, note: Note) -> None:
        """Begin without operations."""
        self._model = model
        self._checker = checker
        self._readings = readings
        self._note = note
        self._expiring: list[tuple[str, str, list[Entry]]] = []
        """By cluster and subscription, entries of unconfirmed expiries that no client has acknowledged."""

    def skips(self, replica: Replica, subscription: Subscription, count: int) -> Then:
        """Record a skip of the next ``count`` entries; return the function to call at its confirmation."""
        self._checker.look_at_log(replica)
        return self._acknowledges(replica, subscription, self._left_through(subscription, LATEST)[:count], "skips")

    def clears(self, replica: Replica, subscription: Subscription, through: Position) -> Then:
        """Record a skip up to ``through``, inclusive; return the function to call at its confirmation."""
        self._checker.look_at_log(replica)
        return self._acknowledges(replica, subscription, self._left_through(subscription, through), "clears")

    def expires(self, replica: Replica, age_s: float, name: str | None = None) -> Then:
        """Allow acknowledging entries older than ``age_s`` in the subscription ``name``, or in all if it is None.

        Returns the function to call at the end of the expiry. The ages come from the model, not from the broker, which
        may leave some of the entries for later.
        """
        log, now = self._model.logs[replica.cluster], replica.site.clock.monotonic()
        old = log.ages.old(max(age_s - DRIFTED_S, 0.0), now, replica.site.seem_older)
        return self._may_go(replica, [log.at[position] for position in old], name)

    def evicts(self, replica: Replica, limit: int) -> Then:
        """Allow acknowledging all but the newest entries, for a quota; as ``expires``.

        The newest entries have half of ``limit`` bytes together, including entries being written. A broker keeps nine
        tenths, with entries that arrive in the meantime. It counts the entries of one ledger with their average size.
        """
        if replica.topic is None:
            return lambda: None
        self._checker.look_at_log(replica)
        log, ledger, may_go = self._model.logs[replica.cluster], replica.topic.ledger, []
        held = sum(size for (at, _), size in zip(log.entries, log.sizes, strict=True) if at >= ledger.first_position)
        newest = float(ledger.size_bytes - held)
        sizes: dict[int, list[int]] = {}
        for (position, _), size in zip(log.entries, log.sizes, strict=True):
            sizes.setdefault(position.ledger_id, []).append(size)
        size_in = {ledger_id: mean(each) for ledger_id, each in sizes.items()}
        for position, entry in reversed(log.entries):
            newest += size_in[position.ledger_id]
            if newest > limit / 2:
                may_go.append(entry)
        return self._may_go(replica, may_go)

    def _may_go(self, replica: Replica, entries: list[Entry], name: str | None = None) -> Then:
        if replica.topic is None:
            return lambda: None
        self._readings.may_miss(replica.cluster, entries)
        first = replica.topic.ledger.first_position
        asked: list[tuple[Subscription, Epoch, list[Entry]]] = []
        self._expiring = [each for each in self._expiring if each[2]]
        for subscription in replica.topic.subscriptions.values():
            if subscription.progress is not None and name in (None, subscription.name):
                epoch = subscription.progress.state.epoch
                left = [entry for entry in entries if self._checker.is_left(subscription, entry)]
                lifetime = self._model.lifetime(replica.cluster, subscription.name, epoch)
                for entry in left:
                    lifetime.acknowledge(entry.text, entry.every)
                # A cursor that lost its state with the power may be before entries that were trimmed.
                places = self._model.logs[replica.cluster].places
                asked.append((subscription, epoch, [entry for entry in left if places[entry.text] >= first]))
        self._expiring += [(replica.cluster, each.name, left) for each, _, left in asked]

        def done() -> None:
            for subscription, epoch, left in asked:
                gone = {entry.text: entry.every for entry in left if not self._checker.is_left(subscription, entry)}
                if gone:  # otherwise nothing was written, and the reset of the epoch may have failed
                    self._model.promise(replica.cluster, subscription.name).add(epoch, gone)
                left.clear()

        return self._model.unless_lost(replica.cluster, done)

    def acknowledged_otherwise(self, replica: Replica, name: str, texts: Container[str]) -> None:
        """Remove entries that clients acknowledge during an expiry from those that it confirms."""
        for cluster, subscription, left in self._expiring:
            if (cluster, subscription) == (replica.cluster, name):
                left[:] = [entry for entry in left if entry.text not in texts]

    def _left_through(self, subscription: Subscription, through: Position) -> list[Entry]:
        # A cursor that lost its state with the power may be before entries that were trimmed.
        entries = self._model.logs[subscription.environment.cluster].entries
        held = (each for each in entries if subscription.topic.ledger.first_position <= each[0] <= through)
        return [entry for _, entry in held if self._checker.is_left(subscription, entry)]

    def _acknowledges(self, replica: Replica, subscription: Subscription, entries: list[Entry], what: str) -> Then:
        if subscription.progress is None:
            return lambda: None
        name, epoch = subscription.name, subscription.progress.state.epoch
        lifetime, promise = (
            self._model.lifetime(replica.cluster, name, epoch),
            self._model.promise(replica.cluster, name),
        )
        for entry in entries:
            lifetime.acknowledge(entry.text, entry.every)
        texts = " ".join(entry.text for entry in entries)
        self._note(replica.cluster, "", f"{name}: an operator {what} {texts or 'nothing'} in epoch {epoch}")
        done = {entry.text: entry.every for entry in entries}
        return self._model.unless_lost(replica.cluster, lambda: promise.add(epoch, done))
