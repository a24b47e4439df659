"""The topics that a cluster loses, for the carriers of links to it (protocol: Resting links).

A topic that is deleted in one cluster alone must be filled again by the links from other clusters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.base.names import TopicName

REPORTED_MAX = 1_000
"""Maximum number of topics in a report, some 100 bytes each. A report of more has none, and means any topic."""


class LossReport(NamedTuple):
    """The topics lost since the report before, and the state after that."""

    state: str
    topics: tuple[str, ...]


class Losses:
    """The losses of a cluster since the start of its broker. Used on the event loop's thread."""

    def __init__(self, run: str) -> None:
        """Begin without losses; ``run`` identifies the run of the broker."""
        self._run = run
        self._count = 0
        self._watches: dict[LossWatch, None] = {}
        """In the order of their begin, so that a simulated world is the same in each run."""

    @property
    def state(self) -> str:
        """A text that changes with each loss, and with each start of the broker."""
        return f"{self._run}:{self._count}"

    def note(self, topic: TopicName) -> None:
        """Note that a topic was lost: clients may see it again, without its entries."""
        self._count += 1
        for watch in self._watches:
            watch.lost(str(topic))

    def watch(self, on_lost: Callable[[], None]) -> LossWatch:
        """Return a watch that begins now; it calls ``on_lost`` after a loss."""
        watch = LossWatch(self, on_lost)
        self._watches[watch] = None
        return watch

    def end(self, watch: LossWatch) -> None:
        """End a watch."""
        self._watches.pop(watch, None)


class LossWatch:
    """The losses that one client does not know yet."""

    def __init__(self, losses: Losses, on_lost: Callable[[], None]) -> None:
        """Begin without losses."""
        self._losses = losses
        self._on_lost = on_lost
        self._topics: dict[str, None] = {}

    def lost(self, topic: str) -> None:
        """Note a lost topic; of too many, only the number matters."""
        if len(self._topics) <= REPORTED_MAX:
            self._topics[topic] = None
        self._on_lost()

    def take(self) -> LossReport:
        """Return the next report."""
        topics = () if len(self._topics) > REPORTED_MAX else tuple(self._topics)
        self._topics.clear()
        return LossReport(self._losses.state, topics)
