"""Links that rest: they have no holder, because there is nothing to carry (protocol: Resting links).

A pipeline task, the *carrier* of links to a target, gives each link a holder when the link is *due*. A link rests
again when there has been nothing to carry for some time. The content of the target stays known meanwhile, because the
carrier reports what the target loses. Without a carrier no link rests.

The links to a target are divided into buckets by their topics. Each bucket has at most one carrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.names import TopicName
from magnetar.geo.leases import Lease, check_takeover
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator, Sequence


CHECKS = 5
"""Number of looks for idle links in the time after which a link rests, if that is not too often."""

CHECK_INTERVAL_MIN_S = 0.05
"""Minimum seconds between two looks for idle links."""

CHECK_INTERVAL_S = 1.0
"""Seconds between two looks whether links may rest now, while they may not."""


class RestingLink(Protocol):
    """A link of one topic."""

    @property
    def topic_name(self) -> TopicName:
        """The topic."""
        ...

    @property
    def target(self) -> str:
        """Target cluster."""
        ...

    @property
    def bucket(self) -> int:
        """The bucket of the link."""
        ...

    @property
    def has_backlog(self) -> bool:
        """Whether entries were not confirmed by the target."""
        ...

    def lose_target(self) -> None:
        """Handle that the content of the target is unknown, unless the link has a holder."""
        ...

    def check(self, idle_s: float) -> None:
        """Let the link rest if there has been nothing to carry for ``idle_s`` seconds."""
        ...


class Carrier(Protocol):
    """A pipeline task that carries links to one target."""

    @property
    def target(self) -> str:
        """Target cluster."""
        ...

    @property
    def lease(self) -> int:
        """The lease of the task."""
        ...

    @property
    def pipeline(self) -> str:
        """Identity of the pipeline."""
        ...

    @property
    def buckets(self) -> Sequence[int]:
        """The buckets of its links, different ones."""
        ...

    target_state: str
    """The state of the target that the task has reported; empty if the task does not observe the target."""

    def due(self, topic: TopicName, *, is_urgent: bool) -> None:
        """Report that a link needs a holder; before others if it has a backlog."""
        ...

    def superseded(self) -> None:
        """Report that other tasks carry the links of all its buckets."""
        ...


class Slices(Protocol):
    """Work on many items, in slices of turns of the event loop."""

    def start(self, key: object, items: Iterable[RestingLink], work: Callable[[RestingLink], None]) -> None:
        """Run ``work`` on each of ``items``. The rest of an earlier start with the same ``key`` is dropped."""
        ...


class _LinksToTarget:
    """The links of all loaded topics to one target."""

    __slots__ = ("awake", "carriers", "held", "resting", "target", "timer")

    def __init__(self, target: str) -> None:
        self.target = target
        self.carriers: list[Carrier | None] = [None] * LINK_BUCKETS
        """By bucket."""
        self.timer: asyncio.TimerHandle | None = None
        """The next look for links that may rest."""
        self.awake: dict[TopicName, RestingLink] = {}
        """Links that have a holder, or are due."""
        self.held: dict[TopicName, RestingLink] = {}
        """Those of them that have a holder, or had one at the last look."""
        self.resting: dict[TopicName, RestingLink] = {}

    @property
    def has_carrier(self) -> bool:
        return any(carrier is not None for carrier in self.carriers)

    def target_state(self, bucket: int) -> str:
        """Return the state of the target that the carrier of a bucket has reported; empty if it is not known."""
        carrier = self.carriers[bucket]
        return "" if carrier is None else carrier.target_state

    def carried_by(self, carrier: Carrier) -> list[int]:
        """Return the buckets that a carrier has not lost to others."""
        return [bucket for bucket in carrier.buckets if self.carriers[bucket] is carrier]

    def awake_in(self, buckets: Iterable[int]) -> Iterator[RestingLink]:
        """Yield the links in some buckets that do not rest now."""
        wanted = frozenset(buckets)
        return (link for link in tuple(self.awake.values()) if link.bucket in wanted)


class RestingLinks:
    """The links of all loaded topics of a broker. Used on the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, slices: Slices, idle_s: Callable[[], float]) -> None:
        """Begin without links and carriers. Links rest after ``idle_s`` seconds, never if that is 0."""
        self._loop = loop
        self._slices = slices
        self._idle_s = idle_s
        self._by_target: dict[str, _LinksToTarget] = {}
        self.rested = self.woken = self.targets_lost = 0
        """How often a link began to rest or ended it, and how often the content of a target became unknown."""

    def pipeline_of(self, link: RestingLink) -> str | None:
        """Return the pipeline that carries a link; None without one."""
        links = self._by_target.get(link.target)
        carrier = None if links is None else links.carriers[link.bucket]
        return None if carrier is None else carrier.pipeline

    # -- links --------------------------------------------------------------------------------------------------

    def add(self, link: RestingLink) -> None:
        """Add a link without a holder: it is due."""
        self._wake(self._to(link.target), link)

    def remove(self, link: RestingLink) -> None:
        """Remove a link that has ended; a newer one of the same topic stays."""
        links = self._to(link.target)
        for each in (links.awake, links.held, links.resting):
            if each.get(link.topic_name) is link:
                del each[link.topic_name]
        self._tidy(links)

    def rest(self, link: RestingLink) -> bool:
        """Let a link rest that has nothing to carry; return False if nobody would give it a holder again."""
        links = self._to(link.target)
        if not links.target_state(link.bucket) or links.awake.get(link.topic_name) is not link:
            return False
        del links.awake[link.topic_name]
        links.held.pop(link.topic_name, None)
        links.resting[link.topic_name] = link
        self.rested += 1
        return True

    def hold(self, link: RestingLink) -> None:
        """Note that a link, which may rest, has a holder."""
        links = self._to(link.target)
        if links.resting.pop(link.topic_name, None) is not None:
            links.awake[link.topic_name] = link
        if links.awake.get(link.topic_name) is link:
            links.held[link.topic_name] = link

    def left(self, link: RestingLink) -> None:
        """Note that a link, which does not rest, has no holder."""
        links = self._to(link.target)
        if links.held.get(link.topic_name) is link:
            del links.held[link.topic_name]

    def wake(self, link: RestingLink) -> None:
        """Make a link due, which may rest and has no holder."""
        links = self._to(link.target)
        if links.awake.get(link.topic_name) is link or links.resting.get(link.topic_name) is link:
            self._wake(links, link)

    def _wake(self, links: _LinksToTarget, link: RestingLink) -> None:
        self.woken += links.resting.pop(link.topic_name, None) is not None
        links.awake[link.topic_name] = link
        carrier = links.carriers[link.bucket]
        if carrier is not None:
            carrier.due(link.topic_name, is_urgent=True)

    # -- carriers -----------------------------------------------------------------------------------------------

    def begin(self, carrier: Carrier) -> None:
        """Let a new carrier carry the links of its buckets; all that do not rest are due.

        If its state of the target is not that of the carrier before, the content of the target becomes unknown for the
        links. Raises LinkHeldError for an earlier lease, and for another pipeline without a newer one.
        """
        links = self._to(carrier.target)
        before = dict.fromkeys(each for bucket in carrier.buckets if (each := links.carriers[bucket]) is not None)
        for each in before:
            newcomer, holder = Lease(carrier.lease, carrier.pipeline), Lease(each.lease, each.pipeline)
            check_takeover(carrier.target, newcomer, holder)
        lost = [bucket for bucket in carrier.buckets if not _follows(carrier.target_state, links.target_state(bucket))]
        for bucket in carrier.buckets:
            links.carriers[bucket] = carrier
        for each in before:
            if not links.carried_by(each):
                each.superseded()
        self._lose_target(links, lost)
        self._start_due(links, carrier)
        if links.timer is None:
            self._check(links)

    def report(self, carrier: Carrier, state: str, lost: Iterable[str] = ()) -> None:
        """Note a new ``state`` of the target that a carrier reports, and what the target ``lost`` since the one before.

        If the states do not follow each other, the content of the target becomes unknown for the links of the carrier.
        All of them that do not rest are due.
        """
        links = self._to(carrier.target)
        before, carrier.target_state = carrier.target_state, state
        if before and state and (names := list(lost)):
            self._lost(links, carrier, names)
            return
        if not _follows(state, before):
            self._lose_target(links, links.carried_by(carrier))
        self._start_due(links, carrier)

    def _start_due(self, links: _LinksToTarget, carrier: Carrier) -> None:
        def report(link: RestingLink) -> None:
            if links.carriers[link.bucket] is carrier:
                carrier.due(link.topic_name, is_urgent=link.has_backlog)

        self._slices.start(("links due", carrier), links.awake_in(carrier.buckets), report)

    def _check(self, links: _LinksToTarget) -> None:
        """Let idle links rest, and look again later, while there is a carrier.

        Links without a holder are left out: while many wait for their first one, looking at all of them would take much
        of the time in which they could get it.
        """
        links.timer = None
        if not links.has_carrier:
            return
        idle_s = self._idle_s()
        if idle_s and any(map(links.target_state, range(LINK_BUCKETS))):
            held = tuple(links.held.values())
            self._slices.start(("idle links", links.target), held, lambda link: link.check(idle_s))
        links.timer = self._loop.call_later(self._interval_s(idle_s), self._check, links)

    @staticmethod
    def _interval_s(idle_s: float) -> float:
        return max(idle_s / CHECKS, CHECK_INTERVAL_MIN_S) if idle_s else CHECK_INTERVAL_S

    def end(self, carrier: Carrier) -> None:
        """Handle the end of a carrier; without a successor, the content of the target is unknown for its links."""
        links = self._to(carrier.target)
        held = links.carried_by(carrier)
        for bucket in held:
            links.carriers[bucket] = None
        self._lose_target(links, held)
        self._tidy(links)

    def _lost(self, links: _LinksToTarget, carrier: Carrier, names: list[str]) -> None:
        for name in names:
            try:
                topic = TopicName.parse(name)
            except MagnetarError:
                continue  # the target has topics that this cluster cannot have
            link = links.resting.get(topic) or links.awake.get(topic)
            if link is None or links.carriers[link.bucket] is not carrier:
                continue  # the carrier of its bucket reports it as well
            if topic in links.resting:
                self._wake(links, link)
            link.lose_target()

    def _lose_target(self, links: _LinksToTarget, buckets: Sequence[int]) -> None:
        """Wake all links in some buckets. A holder verifies the content of the target; that of others is unknown."""
        if not buckets:
            return
        lost = frozenset(buckets)
        woken = {name: link for name, link in links.resting.items() if link.bucket in lost}
        self.targets_lost += bool(woken)
        for name in woken:
            del links.resting[name]
        links.awake |= woken
        # A start with the same key covers all links of an earlier one, the rest of which it drops.
        self._slices.start(
            ("target lost", links.target, *buckets), links.awake_in(buckets), lambda link: link.lose_target()
        )

    def _tidy(self, links: _LinksToTarget) -> None:
        """Forget a target without links and carrier."""
        if not (links.awake or links.resting or links.has_carrier):
            del self._by_target[links.target]

    def _to(self, target: str) -> _LinksToTarget:
        links = self._by_target.get(target)
        if links is None:
            links = self._by_target[target] = _LinksToTarget(target)
        return links


def _follows(state: str, before: str) -> bool:
    """Return whether the target has lost nothing between two reports of its state."""
    return bool(state) and state == before
