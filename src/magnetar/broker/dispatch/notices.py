"""Notices to the consumers of a Failover subscription: whether they are the active one (ACTIVE_CONSUMER_CHANGE)."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.loop.slices import SlicedWork

_NEVER = -1


class ActiveNotices:
    """Tells every consumer of each change of the active one.

    The two consumers that a change concerns are told at once, the others in slices. A consumer that was not told of a
    change before the next one came is told of the next one only. So a change costs one slice of the turn, however many
    consumers there are.
    """

    def __init__(self, work: SlicedWork[object, Consumer]) -> None:
        """No consumers; ``work`` does what is left for later turns."""
        self._work = work
        self._active: Consumer | None = None
        self._changes = 0
        self._told: OrderedDict[Consumer, int] = OrderedDict()
        """How many changes there had been when a consumer was told last. The lowest numbers come first."""

    def added(self, consumer: Consumer) -> None:
        """A consumer came, which is still to be told."""
        self._told[consumer] = _NEVER
        self._told.move_to_end(consumer, last=False)

    def removed(self, consumer: Consumer) -> None:
        """A consumer left, and is told nothing more."""
        del self._told[consumer]

    def tell(self, consumer: Consumer) -> None:
        """Tell one consumer now."""
        self._told[consumer] = self._changes
        self._told.move_to_end(consumer)
        consumer.session.active_consumer_changed(consumer, is_active=consumer is self._active)

    def changed(self, active: Consumer | None) -> None:
        """Tell all consumers that ``active`` is the active one; None: there is no consumer."""
        self._changes += 1
        before, self._active = self._active, active
        for concerned in (before, active):
            if concerned is not None and concerned in self._told:
                self.tell(concerned)
        self._work.start(self, self._untold(), self.tell)

    def close(self) -> None:
        """Tell nobody any more."""
        self._work.cancel(self)

    def _untold(self) -> Iterator[Consumer]:
        """The consumers that do not know of the last change; each is told before the next one is asked for."""
        while self._told:
            consumer, changes = next(iter(self._told.items()))
            if changes == self._changes:
                return
            yield consumer
