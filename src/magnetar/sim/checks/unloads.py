"""Unloads of topics: no acknowledgement from before may be lost, confirmed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic
    from magnetar.geo.progress.epochs import Epoch
    from magnetar.sim.checks.checker import Checker
    from magnetar.sim.checks.model import Model
    from magnetar.sim.site import Replica


class _Unload(NamedTuple):
    topic: Topic
    faults: object
    """``Site.faults`` before the unload began."""
    acknowledged: dict[str, tuple[Epoch, dict[str, int]]]
    """By subscription, its epoch, and by text the bit set of acknowledged messages."""


class Unloads:
    """The acknowledgements of one topic in each cluster at the beginning of an unload."""

    def __init__(self, model: Model, checker: Checker) -> None:
        """Begin without unloads."""
        self._model = model
        self._checker = checker
        self._under_way: dict[str, _Unload] = {}

    def begin(self, replica: Replica) -> None:
        """Record the acknowledgements; the unload begins in the same turn of the broker's loop."""
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
        """Require the recorded acknowledgements of a topic that is loaded again, if no fault occurred in between."""
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
