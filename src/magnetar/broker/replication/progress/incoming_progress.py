"""Application of other clusters' progress markers, in order of arrival; a large one takes several turns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError, RequestError, ServerError, StorageError
from magnetar.base.limits import Limit
from magnetar.broker.replication.interfaces import TopicWithSubscriptions
from magnetar.broker.replication.lives import check_progress
from magnetar.broker.replication.trims import when_trims_are_stored
from magnetar.geo.progress.parts import in_parts, takes_nothing_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from magnetar.broker.loop.turns import Share
    from magnetar.geo.progress.codec import ProgressReport
    from magnetar.geo.progress.state import SubscriptionProgress

PART_ITEMS_MAX = 100
"""Intervals and partly acknowledged batches of a marker that are applied at once, some 2 ms of work."""

MARKERS_MAX = 100
"""Maximum number of pending markers of a topic; further ones are refused. Each cluster sends one at a time."""


class MarkedTopic(TopicWithSubscriptions, Protocol):
    """The topic of the markers."""

    @property
    def share(self) -> Share:
        """The topic's share of the turns of the event loop."""
        ...


@dataclass(slots=True)
class _Marker:
    """A pending marker."""

    source: str
    marker: ProgressReport
    done: Callable[[MagnetarError | None], None]
    refused: Callable[[MagnetarError], None]
    has_failed: bool = False

    def fail(self, error: MagnetarError) -> None:
        self.has_failed = True
        self.refused(error)


class IncomingProgress:
    """The pending markers of one topic.

    Parts of a state are states, so a marker that is applied in parts has the effect of several smaller markers. The
    receipt follows the last part. Markers of one topic never overtake each other. A small marker, like nearly all, is
    applied before ``take`` returns, unless an earlier one is pending.
    """

    def __init__(self, topic: MarkedTopic, apply: Callable[[str, ProgressReport, SubscriptionProgress], None]) -> None:
        """Create it; ``apply`` applies a state, or part of one, of a cluster; it may raise MagnetarError."""
        self._topic = topic
        self._apply = apply
        self._environment = topic.environment
        self._steps: deque[Callable[[], None]] | None = None
        """Created for the first marker: an empty queue takes 760 bytes, and most topics have no markers."""
        self._is_waiting = False
        """Whether steps wait for a later turn, or until metadata are durable."""
        self._markers = 0
        """Pending markers."""

    def take(
        self,
        source: str,
        marker: ProgressReport,
        done: Callable[[MagnetarError | None], None],
        refused: Callable[[MagnetarError], None],
    ) -> None:
        """Apply a marker of ``source``; ``done`` is called when its effect is durable or has failed.

        ``refused`` is called instead if a state cannot be applied. The rest of the marker is dropped then, and the
        sender repeats its complete state.
        """
        if self._markers >= MARKERS_MAX:
            limit = Limit.PROGRESS_MARKERS
            message = f"{self._topic.name}: {MARKERS_MAX} progress markers wait to be applied ({limit})"
            refused(RequestError(ServerError.TooManyRequests, message, limit))
            return
        self._markers += 1
        pending = _Marker(source, marker, done, refused)
        parts = [part for state in marker.states for part in self._parts_of(state)]
        if self._steps is None:
            self._steps = deque()
        self._steps += [partial(self._step, pending, part) for part in (*parts, None)]
        if not self._is_waiting:
            if self._environment.turns.begin(self._environment.clock.monotonic()):
                self._go_on()
            else:
                self._wait()

    def _step(self, pending: _Marker, part: SubscriptionProgress | None) -> None:
        """Apply one part of a marker; None ends the marker."""
        if part is None:
            self._markers -= 1
        if pending.has_failed:
            return
        try:
            if part is None:
                self._topic.log.barrier(pending.done)
            elif self._topic.log.failure is not None:
                # A deletion that could not be stored is undone by the next load, and nothing is applied until then.
                pending.fail(self._topic.log.failure)
            elif check_progress(self._topic, pending.marker) or self._topic.ledger.is_trim_unstored:
                # Another life may have begun since the last part, or a trim.
                assert self._steps is not None, "this step was taken from it"
                self._steps.appendleft(partial(self._step, pending, part))
                self._wait_for_metadata(pending)
            else:
                self._apply(pending.source, pending.marker, part)
        except MagnetarError as error:
            pending.fail(error)
        except BaseException:
            pending.has_failed = True  # without a receipt, the sender repeats its complete state
            raise

    def _wait_for_metadata(self, pending: _Marker) -> None:
        """Continue when the known lives and the list of ledgers are durable."""

        def recorded(error: StorageError | None) -> None:
            if error is not None:
                pending.fail(error)
            self._go_on()

        self._is_waiting = True
        when_trims_are_stored(self._topic, recorded)

    def stop(self) -> None:
        """Drop pending markers without receipts."""
        if self._steps is not None:
            self._steps.clear()
        self._markers = 0

    def _go_on(self) -> None:
        """Run steps until the turn is over, and the others in later turns."""
        self._is_waiting = False
        try:
            while self._steps:
                self._steps.popleft()()
                if self._is_waiting or self._environment.turns.is_over():
                    break
        finally:
            if self._steps and not self._is_waiting:
                self._wait()

    def _wait(self) -> None:
        self._is_waiting = True
        self._environment.turns.soon(self._go_on, self._topic.share)

    def _parts_of(self, incoming: SubscriptionProgress) -> Iterator[SubscriptionProgress]:
        """Yield the parts that are applied separately.

        A state that creates a subscription, or takes acknowledgements back, is not divided: between two parts, messages
        would be delivered that the next part acknowledges.
        """
        subscription = self._topic.subscriptions.get(incoming.name)
        keeper = None if subscription is None else subscription.shared_progress
        if keeper is not None and takes_nothing_back(keeper.state, incoming):
            yield from in_parts(incoming, PART_ITEMS_MAX)
        else:
            yield incoming
