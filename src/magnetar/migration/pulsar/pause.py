"""Pauses the dispatch of subscriptions in Apache Pulsar, so that consumers can acknowledge what they hold.

Each subscription gets a dispatch rate that is as good as none, unless it has one. Apache Pulsar keeps policies of
topics in a topic of its own, and returns a rate when its broker has read it from there. Partitions have the policies of
their topic: Apache Pulsar refuses policies of a partition.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from magnetar.base.errors import AdminError
from magnetar.base.names import TopicName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from magnetar.migration.sides import Side

PAUSED: Final = {
    "dispatchThrottlingRateInMsg": 1,
    "dispatchThrottlingRateInByte": -1,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 86_399,
}
"""The DispatchRate of a paused subscription: one message in nearly a day. Its period tells whose it is."""

CONFIRMED_S: Final = 2.0
"""Maximum time until the broker knows the rates of a topic."""

POLL_S: Final = 0.02
"""Seconds between two looks at the rates."""

QUIET_S: Final = 0.2
"""Seconds without dispatch after which a rate that the broker knows has effect, and all messages have arrived.

The broker applies a rate some time after it knows it, a busy one later. A rate of one message also lets one pass.
"""


class World(Protocol):
    """Time."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return at once with True when the command shall end."""
        ...


@dataclass(slots=True)
class _Pause:
    """The pause of a topic with all its partitions."""

    begun_at: float | None
    """When the broker knew all rates; None if it did not know them in time."""
    parts: set[str] = field(default_factory=set)
    """Its partitions, or the topic itself, as long as their pauses have not ended."""
    subscriptions: set[str] = field(default_factory=set)
    """The subscriptions that were paused."""
    dispatched: dict[str, tuple[Mapping[str, int], float]] = field(default_factory=dict)
    """By part: the numbers of messages that were dispatched, by subscription, and when they were seen first."""


class DispatchPause:
    """The pauses of the topics of one cluster. Used by several threads."""

    def __init__(self, side: Side, world: World) -> None:
        """Set the rates in the cluster of ``side``."""
        self._side = side
        self._policies = side.client.topic_documents
        self._world = world
        self._pauses: dict[TopicName, _Pause] = {}
        """By topic without partitions."""

    def prepare(self, topic: str, subscriptions: Iterable[str]) -> None:
        """Let the broker read the policies of the namespace, which takes a second, while clients are still served."""
        name = TopicName.parse(topic).partitioned_topic
        first = next(iter(subscriptions), None)
        if first is not None:
            self._is_set(name, first)

    def begin(self, topic: str, subscriptions: Iterable[str]) -> None:
        """Pause subscriptions, once, and wait until the broker knows it. One that cannot be paused goes on."""
        name, now = TopicName.parse(topic).partitioned_topic, self._world.monotonic()
        pause = self._pauses.setdefault(name, _Pause(now))
        pause.parts.add(topic)
        new = [each for each in subscriptions if each not in pause.subscriptions]
        pause.subscriptions.update(new)
        left = [each for each in new if self._set(name, each)]
        if not left:
            return
        deadline = now + CONFIRMED_S
        while True:
            left = [each for each in left if not self._is_set(name, each)]
            if not left or self._world.monotonic() >= deadline or self._world.wait(POLL_S):
                break
        pause.begun_at = None if left else self._world.monotonic()

    def is_effective(self, topic: str, dispatched: Mapping[str, int]) -> bool:
        """Return whether consumers hold all messages that were dispatched to them, and get no more.

        ``dispatched`` has the number of messages that were dispatched so far, by subscription with consumers.
        """
        pause = self._pauses.get(TopicName.parse(topic).partitioned_topic)
        if pause is None or pause.begun_at is None:
            return False
        now = self._world.monotonic()
        known, since = pause.dispatched.get(topic, (None, now))
        if known != dispatched:
            since = now
            pause.dispatched[topic] = dispatched, since
        return not dispatched or now - max(since, pause.begun_at) >= QUIET_S

    def end(self, topic: str, subscriptions: Iterable[str]) -> None:
        """Remove the rates that ``begin`` has set, also in an earlier process; with the last one of some partitions."""
        name = TopicName.parse(topic).partitioned_topic
        pause = self._pauses.get(name)
        if pause is not None:
            pause.parts.discard(topic)
            if pause.parts:
                return
            del self._pauses[name]
        for each in subscriptions:
            if self._is_set(name, each):
                with self._side.answers(), suppress(AdminError):
                    self._policies.remove_dispatch_rate(name, each)

    def _set(self, topic: TopicName, subscription: str) -> bool:
        """Pause a subscription without a dispatch rate; return False if the cluster has no such policies."""
        with self._side.answers(), suppress(AdminError):
            rate = self._policies.dispatch_rate(topic, subscription)
            if rate is None:
                self._policies.set_dispatch_rate(topic, subscription, PAUSED)
                return True
        return False

    def _is_set(self, topic: TopicName, subscription: str) -> bool:
        with self._side.answers(), suppress(AdminError):
            rate = self._policies.dispatch_rate(topic, subscription)
            return rate is not None and rate.get("ratePeriodInSecond") == PAUSED["ratePeriodInSecond"]
        return False
