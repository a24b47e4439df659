"""Periodic work for non-persistent topics: rates, and the removal of topics that nobody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.tasks import start_task
from magnetar.broker.housekeeping.maintenance import RATE_INTERVAL_S, repeat
from magnetar.broker.non_persistent.producer import NonPersistentProducer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Generator

    from magnetar.broker.environment import Environment
    from magnetar.broker.non_persistent.registry import NonPersistentTopics
    from magnetar.broker.non_persistent.topic import NonPersistentTopic


class NonPersistentMaintenance:
    """The periodic work of one broker, on the event loop's thread."""

    def __init__(self, environment: Environment, topics: NonPersistentTopics) -> None:
        """Do nothing before ``start``."""
        self._environment = environment
        self._topics = topics
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the work; the first round of each task runs after its interval."""
        loop, config = self._environment.loop, self._environment.config
        remove = repeat(config.brokerUnloadInactiveTopicsFrequencySeconds, self.remove_unused)
        self._tasks = [
            start_task(loop, repeat(RATE_INTERVAL_S, self.measure), "rates of non-persistent topics"),
            start_task(loop, remove, "removal of non-persistent topics"),
        ]

    def stop(self) -> None:
        """Stop the work."""
        for task in self._tasks:
            task.cancel()

    async def measure(self) -> None:
        """Update the rates."""
        await self._environment.slices.run(self._measuring(self._environment.clock.monotonic()))

    def _measuring(self, now: float) -> Generator[None, None, None]:
        for topic in tuple(self._topics.loaded.values()):
            yield from _measuring(topic, now)
            yield

    async def remove_unused(self) -> None:
        """Remove the topics that nobody has used for some time, with their schemas."""
        for name in await self._environment.slices.run(self._topics.finding_unused()):
            topic = self._topics.loaded.get(name)
            if topic is not None and topic.is_unused:
                await self._topics.remove_unused(name)


def _measuring(topic: NonPersistentTopic, now: float) -> Generator[None, None, None]:
    topic.arrivals.rates.update(now, topic.arrivals.messages_in, topic.arrivals.bytes_in)
    for producer in tuple(topic.producers.clients()):
        producer.rates.update(now, producer.messages_in, producer.bytes_in)
        if isinstance(producer, NonPersistentProducer):
            producer.drop_rate.update(now, producer.dropped)
        yield
    for subscription in tuple(topic.subscriptions.values()):
        subscription.rates.update(now, *subscription.consumers.counters(), subscription.dropped)
        for consumer in tuple(subscription.consumers):
            consumer.rates.update(now, *consumer.counters)
            yield
