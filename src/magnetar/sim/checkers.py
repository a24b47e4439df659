"""The safety invariants (design, section 1), checked against the naive model after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.sim.model import Entry, Model, read_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.subscription import Subscription
    from magnetar.geo.progress import SubscriptionProgress
    from magnetar.sim.site import Site


class Checker:
    """Looks at brokers and says what is wrong."""

    def __init__(self, model: Model, violated: Callable[[str], None]) -> None:
        """Compare with ``model``; ``violated`` is told what is wrong."""
        self._model = model
        self._violated = violated
        self._seen_crashes: dict[str, int] = {}
        self._compared: dict[tuple[str, str], int] = {}
        """By cluster and origin, how many entries were compared with what the origin published."""
        self._settled: dict[tuple[str, str], tuple[object, set[str]]] = {}
        """By cluster and subscription: texts found rightly acknowledged, in which epoch and with which starts."""
        self._looked_at: dict[tuple[str, str], object] = {}
        """By cluster and subscription: all that was there when everything was found rightly acknowledged."""

    def check(self, site: Site) -> None:
        """Check everything about one cluster."""
        if site.topic is None:
            return
        self.look_at_log(site)
        self._check_receipts(site)
        self._check_replicated(site)
        for name in sorted({sub for cluster, sub in self._model.promises if cluster == site.name}):
            if name not in site.topic.subscriptions:
                self._check_missing(site, name)
        for subscription in site.topic.subscriptions.values():
            if subscription.progress is not None:
                self._check_justified(site, subscription, subscription.progress.state)
                self._check_kept(site, subscription, subscription.progress.state)

    # -- P1, P2, P5: the log ----------------------------------------------------------------------------------------

    def look_at_log(self, site: Site) -> None:
        """Read what has become durable: it must be what was published, in order, once; and what was there still is."""
        log = self._model.logs[site.name]
        if self._seen_crashes.get(site.name, 0) != site.crashes:
            self._seen_crashes[site.name] = site.crashes
            self._check_survived(site)
        after = log.entries[-1][0] if log.entries else EARLIEST
        for position, data in site.durable_entries(after):
            entry = read_entry(site.name, position, data)
            if entry.cluster == site.name:
                self._check_published(site, entry)
            self._model.texts[entry.text] = entry
            log.add(position, entry)

    def _check_receipts(self, site: Site) -> None:
        receipts = self._model.receipts[site.name]
        for text, position in receipts.items():
            entry = self._model.texts.get(text)
            if entry is None or entry.cluster != site.name or position not in (entry.position, EARLIEST):
                self._violated(f"P1: {site.name} receipted {text} at {position}, where there is {entry}")
        receipts.clear()

    def _check_survived(self, site: Site) -> None:
        assert site.topic is not None
        first = site.topic.ledger.first_position
        known = [(position, entry) for position, entry in self._model.logs[site.name].entries if position >= first]
        found = [(at, read_entry(site.name, at, data)) for at, data in site.durable_entries(EARLIEST)]
        if found[: len(known)] != known:
            lost = [f"{entry.text} at {position}" for position, entry in known if (position, entry) not in found]
            self._violated(f"P1: after a restart {site.name} lacks {lost[:5]}")

    def _check_published(self, site: Site, entry: Entry) -> None:
        before = self._model.texts.get(entry.text)
        if before is not None and before != entry:
            self._violated(f"P5: {entry.text} is in {site.name} at {entry.position}, and is that of {before} too")
        self._model.published[site.name].append(entry)

    def _check_replicated(self, site: Site) -> None:
        """What came from another cluster is what that published, in its order, from its first entry on."""
        for cluster, arrived in self._model.logs[site.name].of.items():
            published, seen = self._model.published[cluster], self._compared.get((site.name, cluster), 0)
            for entry, expected in zip(arrived[seen:], published[seen:], strict=False):
                if entry != expected:
                    self._violated(
                        f"P2: {site.name} holds {entry.text} ({cluster} {entry.position}) where {expected.text} "
                        f"({expected.position}) comes next from {cluster}"
                    )
            self._compared[site.name, cluster] = min(len(arrived), len(published))

    # -- P3: nothing is skipped -------------------------------------------------------------------------------------

    def _check_justified(self, site: Site, subscription: Subscription, state: SubscriptionProgress) -> None:
        """What counts as acknowledged was acknowledged by somebody in this epoch, or lies outside."""
        lifetime = self._model.lifetime(subscription.name, state.epoch)
        starts = state.starts()
        if not lifetime.is_known:
            return
        looked_at = self._look_at(site, subscription, state)
        if self._looked_at.get((site.name, subscription.name)) == looked_at:
            return  # more may have been asked for meanwhile: what was right then is right now
        self._looked_at[site.name, subscription.name] = looked_at
        settled = self._settled_in(site, subscription, state, starts)
        first = subscription.topic.ledger.first_position
        places = self._model.logs[site.name].places
        for entries in self._model.published.values():
            for entry in entries:
                if entry.text not in settled:
                    asked = lifetime.acknowledged.get(entry.text, 0)
                    is_outside = entry.position <= starts.get(entry.cluster, EARLIEST)
                    place = places.get(entry.text)
                    if place is not None and place < first:
                        place = None  # its ledger was trimmed: nobody here can have it any more
                    wrong, done = self._judge(subscription, entry, place, asked, is_outside=is_outside)
                    if is_outside and asked != entry.every and not lifetime.is_outside(entry):
                        wrong = f"lies outside, where it starts at {starts[entry.cluster]}: nobody asked for that"
                    if wrong:
                        self._violated(
                            f"P3: {entry.text} of {subscription.name} in {site.name}, epoch {state.epoch}, {wrong}"
                        )
                    elif done:
                        settled.add(entry.text)

    def _judge(
        self, subscription: Subscription, entry: Entry, place: Position | None, asked: int, *, is_outside: bool
    ) -> tuple[str, bool]:
        """What is wrong with one entry, of which ``asked`` was acknowledged, and whether it is done with, rightly.

        ``place`` is where the cluster has it, None where it does not.
        """
        assert subscription.progress is not None
        cursor = subscription.cursor.state
        done = place is not None and (place <= cursor.mark_delete_position or cursor.is_deleted(place))
        covered, unclaimed = self._in_state(subscription.progress.state, entry)
        held_back = cursor.remaining(place) if place is not None and not done else None
        left = entry.every if held_back is None else held_back
        if (done or covered) and not is_outside and asked != entry.every:
            return f"counts as acknowledged, of which {asked:b} is all that anybody did", done
        if place is not None and not done and (covered or is_outside):
            return "is acknowledged elsewhere and would be delivered again", done
        if (entry.every & ~(left & unclaimed)) & ~asked:
            return f"counts as acknowledged but for {left & unclaimed:b}, and {asked:b} is all that anybody did", done
        return "", done

    def _look_at(self, site: Site, subscription: Subscription, state: SubscriptionProgress) -> object:
        """All that an acknowledgement can be told by, as it is now."""
        cursor, model = subscription.cursor.state, self._model
        acknowledged = cursor.mark_delete_position, list(cursor.deleted()), list(cursor.partial_batches())
        known = len(model.logs[site.name].entries), sum(map(len, model.published.values()))
        return state.copy(), acknowledged, subscription.topic.ledger.first_position, known

    def _settled_in(
        self, site: Site, subscription: Subscription, state: SubscriptionProgress, starts: dict[str, Position]
    ) -> set[str]:
        """The texts that were found rightly acknowledged, as long as nothing can have become unacknowledged."""
        key, same = (site.name, subscription.name), (state.epoch, starts, site.crashes)
        if key not in self._settled or self._settled[key][0] != same:
            self._settled[key] = (same, set())
        return self._settled[key][1]

    def _in_state(self, state: SubscriptionProgress, entry: Entry) -> tuple[bool, int]:
        """Whether an entry is claimed as a whole, and which of its messages are not claimed."""
        origin = state.origins.get(entry.cluster)
        if origin is None:
            return False, entry.every
        left = origin.partial.get(entry.position)
        return entry.position in origin.acknowledged, entry.every if left is None else left

    # -- P3, P6: nothing that was confirmed is forgotten ------------------------------------------------------------

    def _check_kept(self, site: Site, subscription: Subscription, state: SubscriptionProgress) -> None:
        promise = self._model.promise(site.name, subscription.name)
        if state.epoch < promise.epoch:
            self._violated(
                f"P6: {subscription.name} in {site.name} is in epoch {state.epoch}, "
                f"after epoch {promise.epoch} was confirmed"
            )
        if state.epoch == promise.epoch:
            for text, mask in promise.acknowledged.items():
                entry = self._model.texts[text]
                if self.unclaimed(state, entry) & mask:
                    self._violated(
                        f"P6: {text} of {subscription.name} in {site.name}, epoch {state.epoch}, was acknowledged "
                        f"({mask:b}) and that was confirmed: no other cluster will hear of it"
                    )
                if self.left(site, subscription, entry) & mask:
                    self._violated(
                        f"P6: {text} of {subscription.name} in {site.name}, epoch {state.epoch}, "
                        f"was acknowledged ({mask:b}) and that was confirmed: it is forgotten"
                    )

    def _check_missing(self, site: Site, name: str) -> None:
        promise = self._model.promise(site.name, name)
        if promise.acknowledged and not self._model.is_buried(name, promise.epoch):
            self._violated(f"P6: {name} in {site.name} is gone, though nobody deleted it since epoch {promise.epoch}")

    def is_left(self, subscription: Subscription, entry: Entry) -> bool:
        """Whether a subscription's cursor still has something of an entry that its cluster holds."""
        cluster = subscription.environment.cluster
        state, place = subscription.cursor.state, self._model.logs[cluster].places[entry.text]
        return place > state.mark_delete_position and not state.is_deleted(place)

    def left(self, site: Site, subscription: Subscription, entry: Entry) -> int:
        """Which messages of an entry a cluster would still deliver, if it held the entry."""
        assert subscription.progress is not None
        cursor = subscription.cursor.state
        place = self._model.logs[site.name].places.get(entry.text)
        if place is None:
            return self.unclaimed(subscription.progress.state, entry)
        if place <= cursor.mark_delete_position or cursor.is_deleted(place):
            return 0
        left = cursor.remaining(place)
        return entry.every if left is None else left

    def unclaimed(self, state: SubscriptionProgress, entry: Entry) -> int:
        """Which messages of an entry a state does not say to be acknowledged."""
        covered, partial = self._in_state(state, entry)
        if covered or (entry.cluster in state.origins and entry.position <= state.origins[entry.cluster].start):
            return 0
        return partial
