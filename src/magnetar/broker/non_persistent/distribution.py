"""Distribution of the published entries of a topic to its subscriptions, in this turn or in later ones.

Runs that wait are bounded: their bytes count as publishes in flight of their connections, and a connection has at most
``maxConcurrentNonPersistentMessagePerConnection`` SENDs in them. Further SENDs are dropped, with receipts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.broker.dispatch.consumer import Delivery
from magnetar.broker.log.interfaces import AnyTopic
from magnetar.broker.loop.turns import Share
from magnetar.wire.entries.entry import messages_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from magnetar.broker.non_persistent.subscription import NonPersistentSubscription
    from magnetar.broker.publish.interfaces import ProducerSession

_ENTRY_ID = 0
"""All messages have the id 0:0, as in Pulsar."""


class DistributedTopic(AnyTopic, Protocol):
    """The topic."""

    @property
    def subscriptions(self) -> Mapping[str, NonPersistentSubscription]:
        """The subscriptions, by name."""
        ...


@dataclass(slots=True, eq=False)
class _Run:
    """SENDs of one connection whose answers are not written yet."""

    session: ProducerSession
    count: int
    size: int
    steps: Iterator[None]
    answer: Callable[[], None]

    def end(self) -> None:
        """Remove the SENDs from those in flight."""
        self.session.undelivered -= self.count
        self.session.publishes_finished(self.count, self.size)


class Distribution:
    """The runs of one topic, in the order of their arrival. Used on the event loop's thread."""

    def __init__(self, topic: DistributedTopic) -> None:
        """Begin without runs."""
        self._topic = topic
        self._share = Share()
        """The topic's share of the turns of the event loop."""
        self._runs: deque[_Run] = deque()
        self.entries = 0
        """Entries that were published since the topic exists."""
        self._is_waiting = False
        """Whether the first run continues in a later turn."""

    def room(self, session: ProducerSession) -> int | None:
        """Return how many SENDs of the connection may wait for a later turn; None if they need not wait."""
        if not self._is_waiting:
            return None
        limit = self._topic.environment.config.maxConcurrentNonPersistentMessagePerConnection
        return max(0, limit - session.undelivered)

    def add(self, session: ProducerSession, entries: Sequence[bytes], count: int, answer: Callable[[], None]) -> None:
        """Distribute entries, if there are any; call ``answer``, which answers ``count`` SENDs, afterwards."""
        self.entries += len(entries)
        size = sum(map(len, entries))
        session.undelivered += count
        session.publishes_started(count, size)
        self._runs.append(_Run(session, count, size, self._steps(entries), answer))
        if not self._is_waiting:
            self._continue()

    def _steps(self, entries: Sequence[bytes]) -> Iterator[None]:
        """Distribute entries in steps: as many as one read of a log has, to one subscription."""
        environment = self._topic.environment
        at_once = environment.config.dispatcherMaxReadBatchSize
        for first in range(0, len(entries), at_once):
            subscriptions = tuple(self._topic.subscriptions.values())
            if subscriptions:
                now = environment.clock.now()
                part = entries[first : first + at_once]
                run = [Delivery(_ENTRY_ID, entry, messages_in(entry)) for entry in part]
                for subscription in subscriptions:
                    subscription.deliver(run, now)
                    yield

    def _continue(self) -> None:
        """Distribute and answer as much as this turn allows."""
        turns = self._topic.environment.turns
        self._is_waiting = False
        while self._runs:
            run = self._runs[0]
            for _ in run.steps:
                if turns.is_over():
                    self._is_waiting = True
                    turns.soon(self._continue, self._share)
                    return
            self._runs.popleft()
            run.end()
            run.answer()

    def close(self) -> None:
        """Drop the runs that wait, without receipts: their clients look the topic up again, and send them again."""
        runs, self._runs = self._runs, deque()
        for run in runs:
            run.end()
            if not run.count:  # another answer that follows the receipts
                run.answer()
