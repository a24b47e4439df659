"""Links that rest: they have no holder, because there is nothing to carry (protocol: Resting links).

A pipeline task, the *carrier* of the links to a target, gives each link a holder when the link is *due*. A link rests
again when there has been nothing to carry for some time. The content of the target stays known meanwhile, because the
carrier reports what the target loses. Without a carrier no link rests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.names import TopicName
from magnetar.geo.leases import Lease, check_takeover

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable


CHECKS = 5
"""Number of looks for idle links in the time after which a link rests."""

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
    """A pipeline task that carries the links to one target."""

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
    def target_state(self) -> str:
        """The state of the target that the task has reported; empty if the task does not observe the target."""
        ...

    def due(self, topic: TopicName, *, is_urgent: bool) -> None:
        """Report that a link needs a holder; before others if it has a backlog."""
        ...

    def superseded(self) -> None:
        """Report that another task carries the links."""
        ...


class Slices(Protocol):
    """Work on many items, in slices of turns of the event loop."""

    def start(self, key: object, items: Iterable[RestingLink], work: Callable[[RestingLink], None]) -> None:
        """Run ``work`` on each of ``items``. The rest of an earlier start with the same ``key`` is dropped."""
        ...


class _LinksToTarget:
    """The links of all loaded topics to one target."""

    __slots__ = ("awake", "carrier", "resting", "target", "target_state", "timer")

    def __init__(self, target: str) -> None:
        self.target = target
        self.carrier: Carrier | None = None
        self.timer: asyncio.TimerHandle | None = None
        """The next look for links that may rest."""
        self.target_state = ""
        self.awake: dict[TopicName, RestingLink] = {}
        """Links that have a holder, or are due."""
        self.resting: dict[TopicName, RestingLink] = {}


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

    def pipeline_of(self, target: str) -> str | None:
        """Return the pipeline that carries the links to ``target``; None without one."""
        links = self._by_target.get(target)
        return None if links is None or links.carrier is None else links.carrier.pipeline

    # -- links --------------------------------------------------------------------------------------------------

    def add(self, link: RestingLink) -> None:
        """Add a link without a holder: it is due."""
        self._wake(self._to(link.target), link)

    def remove(self, link: RestingLink) -> None:
        """Remove a link that has ended; a newer one of the same topic stays."""
        links = self._to(link.target)
        for each in (links.awake, links.resting):
            if each.get(link.topic_name) is link:
                del each[link.topic_name]
        self._tidy(links)

    def rest(self, link: RestingLink) -> bool:
        """Let a link rest that has nothing to carry; return False if nobody would give it a holder again."""
        links = self._to(link.target)
        if links.carrier is None or not links.target_state or links.awake.get(link.topic_name) is not link:
            return False
        del links.awake[link.topic_name]
        links.resting[link.topic_name] = link
        self.rested += 1
        return True

    def hold(self, link: RestingLink) -> None:
        """Note that a link, which may rest, has a holder."""
        links = self._to(link.target)
        if links.resting.pop(link.topic_name, None) is not None:
            links.awake[link.topic_name] = link

    def wake(self, link: RestingLink) -> None:
        """Make a link due, which may rest and has no holder."""
        links = self._to(link.target)
        if links.awake.get(link.topic_name) is link or links.resting.get(link.topic_name) is link:
            self._wake(links, link)

    def _wake(self, links: _LinksToTarget, link: RestingLink) -> None:
        self.woken += links.resting.pop(link.topic_name, None) is not None
        links.awake[link.topic_name] = link
        if links.carrier is not None:
            links.carrier.due(link.topic_name, is_urgent=True)

    # -- carriers -----------------------------------------------------------------------------------------------

    def begin(self, carrier: Carrier, lost: Iterable[str] = ()) -> None:
        """Let ``carrier`` carry the links to its target; all that do not rest are due.

        A carrier that was added before reports the present state of the target, and the topics that the target has
        ``lost`` since the state before. If the states do not follow each other, the content of the target becomes
        unknown for all links. Raises LinkHeldError for an earlier lease, and for another pipeline without a newer one.
        """
        links = self._to(carrier.target)
        before = links.carrier
        if before is not None and before is not carrier:
            newcomer, holder = Lease(carrier.lease, carrier.pipeline), Lease(before.lease, before.pipeline)
            check_takeover(carrier.target, newcomer, holder)
        links.carrier = carrier
        if links.timer is None:
            self._check(links)
        state, links.target_state = links.target_state, carrier.target_state
        if before is carrier and state and carrier.target_state and (names := list(lost)):
            self._lost(links, names)
            return
        if before is not None and before is not carrier:
            before.superseded()
        if state != carrier.target_state or not state:
            self._lose_target(links)
        self._slices.start(
            ("links due", carrier.target),
            tuple(links.awake.values()),
            lambda link: carrier.due(link.topic_name, is_urgent=link.has_backlog),
        )

    def _check(self, links: _LinksToTarget) -> None:
        """Let idle links rest, and look again later, while there is a carrier."""
        links.timer = None
        if links.carrier is None:
            return
        idle_s = self._idle_s()
        if idle_s and links.target_state:
            awake = tuple(links.awake.values())
            self._slices.start(("idle links", links.target), awake, lambda link: link.check(idle_s))
        links.timer = self._loop.call_later(idle_s / CHECKS or CHECK_INTERVAL_S, self._check, links)

    def end(self, carrier: Carrier) -> None:
        """Handle the end of a carrier; without a successor, the content of the target is unknown for all links."""
        links = self._to(carrier.target)
        if links.carrier is carrier:
            links.carrier = None
            links.target_state = ""
            self._lose_target(links)
        self._tidy(links)

    def _lost(self, links: _LinksToTarget, names: list[str]) -> None:
        for name in names:
            try:
                topic = TopicName.parse(name)
            except MagnetarError:
                continue  # the target has topics that this cluster cannot have
            link = links.resting.get(topic)
            if link is not None:
                self._wake(links, link)
            else:
                link = links.awake.get(topic)
            if link is not None:
                link.lose_target()

    def _lose_target(self, links: _LinksToTarget) -> None:
        """Wake all links. A holder verifies the content of the target, so that of other links becomes unknown."""
        self.targets_lost += bool(links.resting)
        links.awake |= links.resting
        links.resting = {}
        awake = tuple(links.awake.values())
        self._slices.start(("target lost", links.target), awake, lambda link: link.lose_target())

    def _tidy(self, links: _LinksToTarget) -> None:
        """Forget a target without links and carrier."""
        if not (links.awake or links.resting or links.carrier):
            del self._by_target[links.target]

    def _to(self, target: str) -> _LinksToTarget:
        links = self._by_target.get(target)
        if links is None:
            links = self._by_target[target] = _LinksToTarget(target)
        return links
