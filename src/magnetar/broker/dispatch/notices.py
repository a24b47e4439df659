"""Notices to the consumers of a Failover subscription: active or not (ACTIVE_CONSUMER_CHANGE)."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.loop.slices import SlicedWork

_NEVER = -1


class ActiveNotices:
    """Notifies all consumers of each change of the active one.

    The two consumers of a change are notified at once, the others in slices. A consumer without a notice when the next
    change comes gets a notice of the latest change only. So a change costs one slice of a turn, with any number of
    consumers.

    A new consumer gets its first notice at its first FLOW, at the latest after ``patience_s`` seconds: the Go client
    drops a notice that comes with the answer to SUBSCRIBE. In Apache Pulsar, a change is notified after the same time.
    """

    def __init__(self, work: SlicedWork[object, Consumer], loop: asyncio.AbstractEventLoop, patience_s: float) -> None:
        """Create notices without consumers; ``work`` runs the remaining slices."""
        self._work = work
        self._loop = loop
        self._patience_s = patience_s
        self._waiting: dict[Consumer, asyncio.TimerHandle] = {}
        """Consumers before their first FLOW."""
        self._active: Consumer | None = None
        self._changes = 0
        self._notified: OrderedDict[Consumer, int] = OrderedDict()
        """Number of changes when a consumer was last notified, lowest first."""

    def added(self, consumer: Consumer) -> None:
        """Add a consumer without a notice."""
        self._notified[consumer] = _NEVER
        self._notified.move_to_end(consumer, last=False)
        if self._patience_s > 0:
            consumer.at_first_flow = partial(self._begin, consumer)
            self._waiting[consumer] = self._loop.call_later(self._patience_s, consumer.at_first_flow)

    def removed(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        del self._notified[consumer]
        self._stop_waiting(consumer)

    def notify(self, consumer: Consumer) -> None:
        """Notify one consumer now; a new one gets the notice at its first FLOW."""
        self._notified[consumer] = self._changes
        self._notified.move_to_end(consumer)
        if consumer not in self._waiting:
            consumer.session.active_consumer_changed(consumer, is_active=consumer is self._active)

    def changed(self, active: Consumer | None) -> None:
        """Notify all consumers that ``active`` is the active one; None if there is none."""
        self._changes += 1
        before, self._active = self._active, active
        for concerned in (before, active):
            if concerned is not None and concerned in self._notified:
                self.notify(concerned)
        self._work.start(self, self._unnotified(), self.notify)

    def close(self) -> None:
        """Stop sending notices."""
        self._work.cancel(self)
        for consumer in tuple(self._waiting):
            self._stop_waiting(consumer)

    def _begin(self, consumer: Consumer) -> None:
        self._stop_waiting(consumer)
        self.notify(consumer)

    def _stop_waiting(self, consumer: Consumer) -> None:
        timer = self._waiting.pop(consumer, None)
        if timer is not None:
            timer.cancel()
            consumer.at_first_flow = None

    def _unnotified(self) -> Iterator[Consumer]:
        """Yield the consumers without a notice of the last change; each is notified before the next one is yielded."""
        while self._notified:
            consumer, changes = next(iter(self._notified.items()))
            if changes == self._changes:
                return
            yield consumer
