"""Creations and deletions of subscriptions, with their start positions, recorded in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.broker.topic.topic import Topic
    from magnetar.geo.progress.epochs import Epoch
    from magnetar.sim.checks.checker import Checker
    from magnetar.sim.checks.model import Model, Starts
    from magnetar.sim.site import Replica


class Unsubscribing(NamedTuple):
    """The effects of an UNSUBSCRIBE: when the broker has handled it, and when it has answered with success or error."""

    handled: Callable[[], None]
    confirmed: Callable[[], None]
    refused: Callable[[], None]


class _Deletion:
    """A deletion that a client requested."""

    def __init__(self, lifetimes: Lifetimes, model: Model, topic: Topic, named: tuple[Replica, str, Epoch]) -> None:
        """Begin when UNSUBSCRIBE arrives; ``named`` is the replica, the subscription and the epoch of its tombstone."""
        self._lifetimes = lifetimes
        self._model = model
        self._topic = topic
        self._named = replica, _, _ = named
        self._in_doubt = replica.site.metadata.in_doubt
        self._is_begun = self._is_waiting = self._is_refused = False

    def handled(self) -> None:
        """See Unsubscribing."""
        replica, name, tombstone = self._named
        self._is_begun = replica.topic is not self._topic or name not in self._topic.subscriptions
        self._is_waiting = not self._is_begun and not self._is_refused
        if self._is_waiting:  # it begins when earlier changes of the subscription are durable, or a fence has ended
            self._model.delete_subscription(replica.cluster, name, tombstone)
        elif self._is_begun:
            self._lifetimes.deletion_begins(*self._named)
            if self._is_refused:
                self._failed()

    def confirmed(self) -> None:
        """See Unsubscribing."""
        if self._is_waiting:
            self._lifetimes.deletion_begins(*self._named)
        self._lifetimes.deletion_confirmed(*self._named)

    def refused(self) -> None:
        """See Unsubscribing."""
        self._is_refused = True
        if self._is_begun:
            self._failed()
        elif self._is_waiting:
            replica, name, tombstone = self._named
            self._model.keep_subscription(replica.cluster, name, tombstone)

    def _failed(self) -> None:
        replica, name, tombstone = self._named
        write = replica.site.metadata.in_doubt
        kept = replica.cluster, self._topic, name, tombstone
        self._lifetimes.deletion_failed(kept, None if write is self._in_doubt else write)


class Lifetimes:
    """Follows the requests of consumers. The returned functions are called after the broker has handled the request."""

    def __init__(self, model: Model, checker: Checker, note: Callable[[str, str, str], None]) -> None:
        """Begin without subscriptions; ``note`` gets source, target and text of an event."""
        self._model = model
        self._checker = checker
        self._note = note
        self._last_seen: dict[str, tuple[int, Mapping[str, Subscription]]] = {}
        """By cluster, the subscriptions of the topic when it was last loaded, and the number of crashes then."""
        self._epochs: dict[str, dict[str, Epoch]] = {}
        """By cluster, the epochs of its replicated subscriptions at the last look, perhaps at an earlier load."""
        self._outlived: dict[tuple[str, str], set[Epoch]] = {}
        """By cluster and subscription, the epochs in which it may continue after a deletion that arrived."""
        self._doubtful: dict[str, tuple[object, str, Epoch]] = {}
        """By cluster, the newest deletion whose write is in doubt: the write, the subscription and the epoch."""
        self._kept: list[tuple[str, Topic, str, Epoch]] = []
        """Cluster, topic, subscription and epoch of failed deletions: the next load finds the subscription."""
        self._awaited: set[tuple[str, str]] = set()
        """Cluster and name of subscriptions requested while the topic was loading or being deleted: created later."""
        self._waiting: dict[tuple[str, str], tuple[Topic, Subscription]] = {}
        """By cluster and name, existing subscriptions with a pending request, and their topics when it came.

        The request may also wait for a deletion.
        """
        self._created_in_life: set[tuple[str, str]] = set()
        """Cluster and name of subscriptions that requests created in this life of the topic, answered or not."""
        self._unreplicated: set[tuple[str, str]] = set()
        """Cluster and name of requested subscriptions that a crash left unreplicated: replicated again a bit later."""

    def lose(self, cluster: str) -> None:
        """Forget a cluster that lost the topic."""
        self._last_seen.pop(cluster, None)
        self._epochs.pop(cluster, None)
        self._outlived = {key: epochs for key, epochs in self._outlived.items() if key[0] != cluster}
        self._doubtful.pop(cluster, None)
        self._kept = [each for each in self._kept if each[0] != cluster]
        self._unreplicated = {each for each in self._unreplicated if each[0] != cluster}
        # A waiting consumer may create it in the next life of the topic, also if the topic is lost before the answer.
        waiting = {each for each in self._waiting.keys() | self._created_in_life if each[0] == cluster}
        self._awaited |= waiting
        self._waiting = {key: existing for key, existing in self._waiting.items() if key not in waiting}
        self._created_in_life -= waiting

    def started(self, replica: Replica) -> None:
        """Record a deletion that was in doubt, and that the broker found when it started."""
        write, buried, tombstone = self._doubtful.get(replica.cluster, (None, "", None))
        if tombstone is not None and replica.site.metadata.found is write:
            del self._doubtful[replica.cluster]
            self._model.delete_subscription(replica.cluster, buried, tombstone)

    def look_at(self, replica: Replica) -> None:
        """Record created subscriptions and the loaded topic."""
        if replica.topic is None:
            return
        self.look_for_outlived(replica)
        self._last_seen[replica.cluster] = replica.crashes, replica.topic.subscriptions
        for each, (topic, existing) in [each for each in self._waiting.items() if each[0][0] == replica.cluster]:
            found = replica.topic.subscriptions.get(each[1])
            # It was deleted by another cluster, and the consumer may have created it again since the last look.
            if found is None or (found is not existing and replica.topic is topic):
                self._creates_once_admitted(each)
        for kept in [each for each in self._kept if each[0] == replica.cluster and each[1] is not replica.topic]:
            self._kept.remove(kept)
            _, _, name, epoch = kept
            self._model.keep_subscription(replica.cluster, name, epoch)
        for name in sorted(self.awaited(replica.cluster)):
            # A topic that is fenced may have subscriptions that are not durable, and does not admit the consumer.
            if name in replica.topic.subscriptions and not replica.is_unloading:
                self._awaited.discard((replica.cluster, name))
                self._created(replica, name)
        for name in sorted(each for cluster, each in self._unreplicated if cluster == replica.cluster):
            found = replica.topic.subscriptions.get(name)
            if found is not None and found.progress is not None:
                self._unreplicated.discard((replica.cluster, name))
                self._replicated(replica, found)()

    def awaited(self, cluster: str) -> set[str]:
        """Return the subscriptions of a cluster that were requested and whose creation is not recorded yet."""
        return {name for each, name in self._awaited if each == cluster}

    def subscribe(self, replica: Replica, name: str) -> Callable[[], None] | None:
        """Handle SUBSCRIBE for a replicated subscription."""
        topic = replica.topic
        if topic is None or replica.is_unloading:
            if not self._was_there(replica, name):
                self._awaited.add((replica.cluster, name))
            elif self._was_unreplicated(replica.cluster, name):
                self._unreplicated.add((replica.cluster, name))
            return None
        existing = topic.subscriptions.get(name)
        if existing is None:
            return lambda: self._created_or_awaited(replica, name)
        self._waiting[replica.cluster, name] = topic, existing
        return self._replicated(replica, existing) if existing.progress is None else None

    def unsubscribe(self, replica: Replica, subscription: Subscription | None) -> Unsubscribing | None:
        """Handle UNSUBSCRIBE."""
        topic = replica.topic
        if subscription is None or subscription.progress is None or topic is None:
            return None
        tombstone = subscription.progress.state.epoch.raised_by(replica.cluster)
        deletion = _Deletion(self, self._model, topic, (replica, subscription.name, tombstone))
        unless_lost = self._model.unless_lost
        return Unsubscribing(
            deletion.handled,
            unless_lost(replica.cluster, deletion.confirmed),
            unless_lost(replica.cluster, deletion.refused),
        )

    def deletion_confirmed(self, replica: Replica, name: str, tombstone: Epoch) -> None:
        """Record that a deletion is durable."""
        self._model.promise(replica.cluster, name).add(tombstone, {})
        self._note(replica.cluster, "", f"{name} deleted, epoch {tombstone}")

    def deletion_failed(self, kept: tuple[str, Topic, str, Epoch], write: object) -> None:
        """Record a deletion that failed: the next load finds the subscription, unless ``write`` was in doubt."""
        self._kept.append(kept)
        if write is not None:
            cluster, _, name, tombstone = kept
            self._doubtful[cluster] = write, name, tombstone

    def deletion_begins(self, replica: Replica, name: str, tombstone: Epoch) -> None:
        """Record a deletion whose outcome is unknown until it is answered, and for ever if the process ends."""
        self._epochs.get(replica.cluster, {}).pop(name, None)
        self._model.delete_subscription(replica.cluster, name, tombstone)
        self._note(replica.cluster, "", f"{name} is to be deleted, epoch {tombstone}")
        if (replica.cluster, name) in self._waiting:
            self._creates_once_admitted((replica.cluster, name))

    def _creates_once_admitted(self, waiting: tuple[str, str]) -> None:
        """Record that a waiting consumer may create the subscription, which was deleted meanwhile."""
        self._waiting.pop(waiting, None)
        self._awaited.add(waiting)

    def deletion_came(self, replica: Replica, name: str, tombstone: Epoch) -> None:
        """Record that a deletion of another cluster arrives."""
        self._outlived.setdefault((replica.cluster, name), set()).add(tombstone.created_after())

    def look_for_outlived(self, replica: Replica) -> None:
        """Find subscriptions that continue in a new epoch since the last look.

        A subscription with consumers outlives its tombstone unchanged. The tombstone may be applied some time after its
        arrival, right before the topic is unloaded or the process ends.
        """
        if replica.topic is None:
            return
        epochs = self._epochs.get(replica.cluster, {})
        found: dict[str, Epoch] = {}
        for subscription in replica.topic.subscriptions.values():
            if subscription.progress is not None:
                name, epoch = subscription.name, subscription.progress.state.epoch
                before = epochs.get(name, epoch)
                found[name] = epoch
                if epoch != before and epoch in self._outlived.get((replica.cluster, name), ()):
                    lived = self._model.lifetime(replica.cluster, name, before)
                    self._model.begin_lifetime(replica.cluster, name, epoch).inherit(lived)
                    self._note(replica.cluster, "", f"{name} goes on in epoch {epoch}")
        self._epochs[replica.cluster] = found

    def _was_there(self, replica: Replica, name: str) -> bool:
        """Return whether a topic had a subscription when it was last loaded, or may have got it before a crash.

        A subscription whose creation was never recorded does not count: it is created again, perhaps at another place.
        """
        crashes, subscriptions = self._last_seen.get(replica.cluster, (replica.crashes, None))
        if subscriptions is None:
            return False
        last = subscriptions.get(name)
        if last is not None:
            cursor = vars(last).get("cursor")  # cleared after the topic was closed, which recorded it
            return cursor is None or (not cursor.is_being_recorded and cursor.ledger_id is not None)
        return crashes != replica.crashes and self._model.may_exist(replica.cluster, name)

    def _was_unreplicated(self, cluster: str, name: str) -> bool:
        """Return whether a topic had a subscription that was not replicated when it was last loaded."""
        _, subscriptions = self._last_seen.get(cluster, (0, dict[str, "Subscription"]()))
        last = subscriptions.get(name)
        return last is not None and "progress" in vars(last) and last.progress is None

    def _created_or_awaited(self, replica: Replica, name: str) -> None:
        """Record a created subscription, or one that still waits for metadata."""
        if replica.topic is not None and name not in replica.topic.subscriptions:
            self._awaited.add((replica.cluster, name))
        self._created(replica, name)

    def _created(self, replica: Replica, name: str) -> None:
        created = replica.topic.subscriptions.get(name) if replica.topic is not None else None
        if created is not None:
            self._created_in_life.add((replica.cluster, name))
            self._checker.look_at_log(replica)
            self._begins(replica, created, self._model.logs[replica.cluster].starts_after(created.cursor.began))

    def _replicated(self, replica: Replica, subscription: Subscription) -> Callable[[], None]:
        """Return a function for a subscription that a crash left unreplicated: it is replicated again in its state."""
        self._checker.look_at_log(replica)
        log, cursor = self._model.logs[replica.cluster], subscription.cursor.state
        starts = log.starts_after(cursor.mark_delete_position)
        done = {entry.text: entry.every for _, entry in log.entries if not self._checker.is_left(subscription, entry)}
        for position, left in cursor.partial_batches():
            entry = log.at[position]
            done[entry.text] = entry.every & ~left

        def replicated() -> None:
            self._begins(replica, subscription, starts)
            if subscription.progress is None:
                self._unreplicated.add((replica.cluster, subscription.name))
            else:
                lifetime = self._model.lifetime(replica.cluster, subscription.name, subscription.progress.state.epoch)
                for text, mask in done.items():
                    lifetime.acknowledge(text, mask)

        return replicated

    def _begins(self, replica: Replica, subscription: Subscription, starts: Starts) -> None:
        if subscription.progress is not None:
            epoch = subscription.progress.state.epoch
            self._model.begin_lifetime(replica.cluster, subscription.name, epoch).starts.append(starts)
            told = " ".join(f"{cluster}={position}" for cluster, position in sorted(starts.items()))
            self._note(
                replica.cluster,
                "",
                f"{subscription.name} created in epoch {epoch}, starts {told or 'at the beginning'}",
            )
