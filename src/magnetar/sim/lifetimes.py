"""Hears subscriptions come and go, and has the model know where each begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.broker.subscription import Subscription
    from magnetar.broker.topic import Topic
    from magnetar.geo.epochs import Epoch
    from magnetar.sim.checkers import Checker
    from magnetar.sim.model import Model, Starts
    from magnetar.sim.site import Site


class Lifetimes:
    """What is asked for, and what comes of it: what a method returns is called when the broker has done what it can."""

    def __init__(self, model: Model, checker: Checker, note: Callable[[str, str, str], None]) -> None:
        """Nothing was heard yet; ``note`` gets source, target and text of what is worth telling."""
        self._model = model
        self._checker = checker
        self._note = note
        self._last_seen: dict[str, tuple[int, Topic]] = {}
        """By cluster, the topic when it was loaded last, and after how many crashes that was."""
        self._awaited: set[tuple[str, str]] = set()
        """Cluster and name of those asked for while the topic was on its way: they are created once it is there."""

    def look_at(self, site: Site) -> None:
        """See what has been created, and which topic is loaded."""
        if site.topic is None:
            return
        self._last_seen[site.name] = site.crashes, site.topic
        for name in sorted(each for cluster, each in self._awaited if cluster == site.name):
            if name in site.topic.subscriptions:
                self._awaited.discard((site.name, name))
                self._created(site, name)

    def subscribe(self, site: Site, name: str) -> Callable[[], None] | None:
        """A consumer asks for a replicated subscription."""
        topic = site.topic
        if topic is None or site.topics.is_unloading(topic.name):
            if not self._was_there(site, name):
                self._awaited.add((site.name, name))
            return None
        existing = topic.subscriptions.get(name)
        if existing is None:
            return lambda: self._created(site, name)
        return self._replicated(site, existing) if existing.progress is None else None

    def unsubscribe(self, site: Site, subscription: Subscription | None) -> Callable[[], None] | None:
        """A consumer deletes its subscription."""
        topic = site.topic
        if subscription is None or subscription.progress is None or topic is None:
            return None
        name, tombstone = subscription.name, subscription.progress.state.epoch.raised_by(site.name)

        def unsubscribed() -> None:
            if name not in topic.subscriptions:
                self._model.tombstones.setdefault(name, []).append(tombstone)
                self._model.promise(site.name, name).add(tombstone, {})
                self._note(site.name, "", f"{name} deleted, epoch {tombstone}")

        return unsubscribed

    def outlived(self, site: Site, epochs: dict[str, Epoch]) -> None:
        """Somebody's progress came, before which subscriptions were in these epochs.

        One that somebody uses goes on behind its tombstone, as it is.
        """
        for subscription in site.topic.subscriptions.values() if site.topic is not None else ():
            if subscription.progress is not None and subscription.name in epochs:
                epoch, before = subscription.progress.state.epoch, epochs[subscription.name]
                if epoch != before and not epoch.cluster:
                    lived = self._model.lifetime(subscription.name, before)
                    self._model.begin_lifetime(subscription.name, epoch).inherit(lived)
                    self._note(site.name, "", f"{subscription.name} goes on in epoch {epoch}")

    def _was_there(self, site: Site, name: str) -> bool:
        """Whether a topic had a subscription when it was loaded last."""
        crashes, topic = self._last_seen.get(site.name, (site.crashes, None))
        return topic is not None and (crashes != site.crashes or name in topic.subscriptions)

    def _created(self, site: Site, name: str) -> None:
        created = site.topic.subscriptions.get(name) if site.topic is not None else None
        if created is not None:
            self._checker.look_at_log(site)
            self._begins(site, created, self._model.logs[site.name].starts_after(created.cursor.began))

    def _replicated(self, site: Site, subscription: Subscription) -> Callable[[], None]:
        """One that a crash left without being replicated is replicated again, as it stands."""
        self._checker.look_at_log(site)
        log, cursor = self._model.logs[site.name], subscription.cursor.state
        starts = log.starts_after(cursor.mark_delete_position)
        done = {entry.text: entry.every for _, entry in log.entries if not self._checker.is_left(subscription, entry)}
        for position, left in cursor.partial_batches():
            entry = log.at[position]
            done[entry.text] = entry.every & ~left

        def replicated() -> None:
            self._begins(site, subscription, starts)
            if subscription.progress is not None:
                lifetime = self._model.lifetime(subscription.name, subscription.progress.state.epoch)
                for text, mask in done.items():
                    lifetime.acknowledge(text, mask)

        return replicated

    def _begins(self, site: Site, subscription: Subscription, starts: Starts) -> None:
        if subscription.progress is not None:
            epoch = subscription.progress.state.epoch
            self._model.begin_lifetime(subscription.name, epoch).starts.append(starts)
            told = " ".join(f"{cluster}={position}" for cluster, position in sorted(starts.items()))
            self._note(
                site.name, "", f"{subscription.name} created in epoch {epoch}, starts {told or 'at the beginning'}"
            )
