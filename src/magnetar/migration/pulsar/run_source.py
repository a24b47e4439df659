"""Apache Pulsar as the source of a run and of the clean-up. Links from it need policies of the target only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.migration.pulsar.acknowledgements import end_of, has_carried, progress_in
from magnetar.migration.pulsar.requests import internal_stats, stats_if_any, topic_stats
from magnetar.migration.pulsar.statistics import clients_in, durable_in
from magnetar.migration.running import links, subscriptions
from magnetar.migration.running.links import LinkState
from magnetar.migration.running.source import waiting_in
from magnetar.wire.links import link_subscription

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from magnetar.base.position import Position
    from magnetar.base.world import Clock
    from magnetar.migration.pulsar.source import Carrier
    from magnetar.migration.running.pair import Pair


class PulsarRunSource:
    """See ``magnetar.migration.running.source.Source``. Used by several threads."""

    def __init__(self, pair: Pair, carrier: Carrier, clock: Clock) -> None:
        """Use the source of ``pair``; ``carrier`` sends acknowledgements to its target."""
        self._pair = pair
        self._carrier = carrier
        self._clock = clock
        self._ends: dict[str, Position] = {}
        """By topic: the last entry when no client was connected any more."""

    def link(self, place: str, before: Sequence[str]) -> None:
        """Replicate a place in the target."""
        del before
        links.link_target(self._pair, place)

    def unlink(self, place: str, before: Sequence[str]) -> None:
        """End the replication in the target."""
        links.unlink_target(self._pair, place, before)

    def link_state(self, topic: str) -> LinkState:
        """Return the state of the subscription by which the pipeline reads a topic."""
        stats = topic_stats(self._pair.source, topic, earliest_time_in_backlog=True)
        if stats is None:
            return LinkState(0, 0.0, "")
        found = stats["subscriptions"].get(link_subscription(self._pair.target_name, is_foreign=True))
        if found is None:
            return LinkState(None, None, "the link is not open yet")
        waits_for = "" if found.get("consumers") else "no pipeline carries the link"
        return LinkState(found["msgBacklog"], _age_s(found, self._clock.now()), waits_for)

    def settings_of(self, topic: str) -> dict[str, bool]:
        """Return the durable subscriptions of clients, and whether each is replicated by snapshots."""
        stats = stats_if_any(self._pair.source, topic)
        return {name: each.get("isReplicated", False) for name, each in durable_in(stats).items()}

    def replicate(self, topic: str, wanted: Iterable[str]) -> None:
        """Do nothing: acknowledgements are read and sent."""

    def restore(self, topic: str, before: Mapping[str, bool]) -> None:
        """Do nothing: no setting was changed."""

    def missing_progress(self, topic: str, wanted: Iterable[str]) -> tuple[str, int | None]:
        """Send the acknowledgements of the moment. The switch sends the last ones."""
        names = list(wanted)
        stats = internal_stats(self._pair.source, topic)
        if stats is None:
            return "", 0
        reason = self._carrier.send(topic, progress_in(stats, names, self._pair.source_name, self._clock.now()))
        if not reason:
            lacking = subscriptions.complete_target(self._pair, topic, names)
            reason = f"{lacking}: the target does not have it yet" if lacking else ""
        return reason, None if reason else 0

    def left_behind(self, topic: str, stats: Mapping[str, Any]) -> str:
        """Return which client is still connected, or which cluster lacks entries.

        What the target publishes comes to the source, too, so there is always something new. The link has carried all
        that clients have published here when it has passed the end that the log had after their disconnection.
        """
        client = next(clients_in(stats), "")
        if client:
            self._ends.pop(topic, None)
            return f"a client at {client} is connected to the source"
        found = internal_stats(self._pair.source, topic)
        if found is None:
            return ""
        if not has_carried(found, self._pair.target_name, self._ends.setdefault(topic, end_of(found))):
            return f"{self._pair.target_name} does not have all entries of the source"
        return waiting_in(stats)


def _age_s(subscription: Mapping[str, Any], now: float) -> float | None:
    """Return the age of the oldest entry of a backlog; 0: there is none, None: unknown."""
    if not subscription["msgBacklog"]:
        return 0.0
    published_ms = subscription.get("earliestMsgPublishTimeInBacklog", 0)
    return max(0.0, now - published_ms / 1000) if published_ms > 0 else None
