"""Mode ``markers`` (PIP-33): the entries that an update of another cluster may acknowledge.

Each cluster has a subscription of its own with its own epochs. An entry may count as acknowledged in a cluster if a
client acknowledged it there since the subscription was created or sought, or if an update arrived since then that
reaches it, from a cluster in which it was acknowledged at any time. A partition or a lost marker delays updates, so
entries may be delivered again in another cluster. No entry may be skipped.

The acknowledgements in an update must be durable at its sender.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST
from magnetar.geo.snapshots.markers import SubscriptionUpdate, decode
from magnetar.wire.entries.entry import parse_metadata, payload_of
from magnetar.wire.entries.markers import UPDATE, marker_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.base.position import Position
    from magnetar.sim.checks.checker import Checker
    from magnetar.sim.checks.model import Entry, Model, Starts
    from magnetar.sim.site import Replica

    Then = Callable[[], None]


@dataclass(eq=False)
class _Arriving:
    """An update that a broker received and may not have applied yet."""

    name: str
    through: Position
    """The update is for entries up to this position here."""
    is_known: bool
    """Whether all acknowledgements of the sender are known."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """By text of each reached entry, the bit set of messages acknowledged at the sender."""
    starts: list[Starts] = field(default_factory=list)
    """The starts of the subscription at the sender."""


class Updates:
    """The updates of one topic's subscriptions in all clusters."""

    def __init__(self, model: Model, checker: Checker, note: Callable[[str, str, str], None]) -> None:
        """Begin without updates; ``note`` gets source, target and text of an event."""
        self._model = model
        self._checker = checker
        self._note = note
        self._arriving: dict[str, tuple[int, list[_Arriving]]] = {}
        """By cluster, the crash count of the broker and the updates that it received since."""
        self.sent_count = 0
        self.applied_count = 0
        self.created_count = 0
        """Number of subscriptions that an update created."""

    def lose(self, cluster: str) -> None:
        """Forget the updates to a cluster that lost the topic."""
        self._arriving.pop(cluster, None)

    def sent(self, replica: Replica, target: str, entry: bytes) -> None:
        """Record an entry sent to ``target``: the acknowledgements in an update must stay durable at the sender."""
        update = _update_in(entry)
        if update is None or replica.topic is None:
            return
        subscription = replica.topic.subscriptions.get(update.name)
        if subscription is None or subscription.progress is None:
            return
        self.sent_count += 1
        self._checker.look_at_log(replica)
        state, first = subscription.progress.state, replica.topic.ledger.first_position
        starts, places, told = state.starts(), self._model.logs[replica.cluster].places, dict[str, int]()
        for each in self._reached(update, target):
            is_held = each.text in places and places[each.text] >= first
            is_inside = each.position > starts.get(each.cluster, EARLIEST)
            # An update from before a seek or a deletion may acknowledge more than the current subscription.
            if is_held and is_inside and not self._checker.is_left(subscription, each):
                told[each.text] = each.every
        self._model.promise(replica.cluster, update.name).add(state.epoch, told)

    def came(self, replica: Replica, source: str, entry: bytes) -> Then | None:
        """Record an entry from ``source``; the result is called right before the broker applies it."""
        update = _update_in(entry)
        if update is None or replica.topic is None:
            return None
        self._checker.look_at_log(replica)
        ever = self._model.ever_acknowledged(source, update.name)
        through = update.positions.get(replica.cluster, EARLIEST)
        arriving = _Arriving(update.name, through, ever.is_known, starts=ever.starts)
        for each in self._reached(update, replica.cluster):
            # A seek skips everything before its position, including entries before the start.
            is_unwanted = ever.was_sought and ever.is_outside(each)
            arriving.acknowledged[each.text] = each.every if is_unwanted else ever.acknowledged.get(each.text, 0)
        self._arriving_in(replica).append(arriving)
        self._note(source, replica.cluster, f"update of {update.name} to {through}")

        def applied() -> None:
            here = self._arriving_in(replica)
            if arriving in here:
                here.remove(arriving)
                self._apply(replica, arriving)
                self.applied_count += 1

        return applied

    def look_at(self, replica: Replica) -> None:
        """Apply the received updates: a broker does not answer the sender if the connection was lost meanwhile."""
        for arriving in self._arriving_in(replica):
            self._apply(replica, arriving)

    def _arriving_in(self, replica: Replica) -> list[_Arriving]:
        crashes, arriving = self._arriving.get(replica.cluster, (replica.crashes, []))
        if crashes != replica.crashes:
            arriving = []
        self._arriving[replica.cluster] = replica.crashes, arriving
        return arriving

    def _reached(self, update: SubscriptionUpdate, cluster: str) -> Iterator[Entry]:
        """Yield the entries of a cluster's log that an update claims there."""
        through = update.positions.get(cluster, EARLIEST)
        for position, entry in self._model.logs[cluster].entries:
            if position > through:
                return
            if update.claims is None:
                yield entry
            else:
                intervals = update.claims.acknowledged.get(entry.cluster)
                if intervals is not None and entry.position in intervals:
                    yield entry

    def _apply(self, replica: Replica, arriving: _Arriving) -> None:
        if replica.topic is None:
            return
        subscription, name = replica.topic.subscriptions.get(arriving.name), arriving.name
        if subscription is None and replica.topic.progress.tombstones.covers(name, arriving.through):
            return  # it may be older than the deletion
        if subscription is None or subscription.progress is None:
            epoch = replica.topic.progress.tombstones.epoch_for_new(name)
        else:
            epoch = subscription.progress.state.epoch
        # a new subscription is answered after its write
        if subscription is None or not self._model.may_exist(replica.cluster, name):
            self.created_count += 1
            lifetime = self._model.begin_lifetime(replica.cluster, name, epoch)
            lifetime.starts += arriving.starts
        else:
            lifetime = self._model.lifetime(replica.cluster, name, epoch)
        lifetime.is_known = lifetime.is_known and arriving.is_known
        for text, mask in arriving.acknowledged.items():
            lifetime.acknowledge(text, mask)


def _update_in(entry: bytes) -> SubscriptionUpdate | None:
    """Return the update in an entry on a link; None for other entries."""
    if marker_type(parse_metadata(entry)) != UPDATE:
        return None
    try:
        decoded = decode(UPDATE, bytes(payload_of(entry)))
    except MagnetarError:
        return None
    return decoded if isinstance(decoded, SubscriptionUpdate) else None
