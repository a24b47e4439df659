"""Topics that are unloaded in order: nothing that was acknowledged before may be forgotten, confirmed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic
    from magnetar.geo.progress.epochs import Epoch
    from magnetar.sim.referees.checkers import Checker
    from magnetar.sim.referees.model import Model
    from magnetar.sim.site import Replica


class _Unload(NamedTuple):
    topic: Topic
    faults: object
    """``Site.faults`` before it began."""
    acknowledged: dict[str, tuple[Epoch, dict[str, int]]]
    """By subscription, its epoch, and for each text a bit for each message."""


class Unloads:
    """One topic: what each cluster had acknowledged when the topic began to be unloaded there."""

    def __init__(self, model: Model, checker: Checker) -> None:
        """No unload is under way."""
        self._model = model
        self._checker = checker
        self._under_way: dict[str, _Unload] = {}

    def begin(self, replica: Replica) -> None:
        """Note what is acknowledged; the unload begins in the same turn of the broker's loop."""
        topic = replica.topic
        if topic is None or replica.is_unloading or not replica.site.store.state.healthy:
            return
        self._checker.look_at_log(replica)
        acknowledged = {}
        for subscription in topic.subscriptions.values():
            if subscription.progress is not None:
                state = subscription.progress.state
                starts = state.starts()
                done = {
                    entry.text: entry.every & ~self._checker.left(replica, subscription, entry)
                    for _, entry in self._model.logs[replica.cluster].entries
                    if entry.position > starts.get(entry.cluster, EARLIEST)
                }
                acknowledged[subscription.name] = state.epoch, {text: mask for text, mask in done.items() if mask}
        self._under_way[replica.cluster] = _Unload(topic, replica.site.faults, acknowledged)

    def look_at(self, replica: Replica) -> None:
        """Hold what was acknowledged against a topic that is loaded again, if nothing failed in between."""
        unload = self._under_way.get(replica.cluster)
        if unload is None or replica.topic is None or replica.topic is unload.topic:
            return
        del self._under_way[replica.cluster]
        if unload.faults == replica.site.faults:
            for name, (epoch, acknowledged) in unload.acknowledged.items():
                self._model.promise(replica.cluster, name).add(epoch, acknowledged)

    def lose(self, cluster: str) -> None:
        """Forget a cluster that lost the topic."""
        self._under_way.pop(cluster, None)
