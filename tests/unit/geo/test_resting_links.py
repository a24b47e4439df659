"""How often the links of a broker are looked at for rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from magnetar.base.names import TopicName
from magnetar.geo.resting_links import CHECK_INTERVAL_MIN_S, CHECKS, RestingLinks
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from magnetar.geo.resting_links import RestingLink


@dataclass
class Link:
    """A held link that counts how often it is looked at."""

    topic_name: TopicName = field(default_factory=lambda: TopicName.parse("persistent://public/default/orders"))
    target: str = "jfk"
    bucket: int = 0
    has_backlog: bool = False
    looks: int = 0

    def check(self, idle_s: float) -> None:
        del idle_s
        self.looks += 1

    def lose_target(self) -> None:
        """The content of the target is unknown anyway."""


class Carrier:
    """A carrier of all links to a target whose state it knows."""

    target = "jfk"
    target_state = "1"
    buckets = tuple(range(LINK_BUCKETS))
    lease = 1
    pipeline = "main"

    def due(self, topic: TopicName, *, is_urgent: bool) -> None:
        """Give no holder."""

    def superseded(self) -> None:
        """Nobody follows."""


class AtOnce:
    """Does the work on all items at once."""

    def start(self, key: object, items: Iterable[RestingLink], work: Callable[[RestingLink], None]) -> None:
        del key
        for item in items:
            work(item)


@pytest.mark.parametrize(
    ("idle_s", "interval_s"),
    [(5.0, 5.0 / CHECKS), (CHECK_INTERVAL_MIN_S * CHECKS, CHECK_INTERVAL_MIN_S), (0.01, CHECK_INTERVAL_MIN_S)],
)
def test_held_links_are_looked_at_some_times_while_they_may_be_idle_but_not_too_often(
    idle_s: float, interval_s: float
) -> None:
    loop, link = HandLoop(), Link()
    links = RestingLinks(loop, AtOnce(), lambda: idle_s)
    links.add(link)
    links.hold(link)
    links.begin(Carrier())
    assert link.looks == 1
    loop.advance(interval_s * 0.99)
    assert link.looks == 1
    for looks in range(2, 10):
        loop.advance(interval_s)
        assert link.looks == looks
