"""The rest of one link: it has no holder, because there is nothing to carry (protocol: Resting links)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.wire.links import link_bucket

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.base.position import Position
    from magnetar.broker.dispatch.consumer import Consumer
    from magnetar.broker.log.interfaces import LoggedTopic
    from magnetar.broker.replication.outbound.lag import LinkLag
    from magnetar.broker.replication.outbound.marker_queue import Delivery, MarkerQueue
    from magnetar.broker.replication.outbound.parking import Parking
    from magnetar.broker.replication.outbound.target_position import TargetPosition
    from magnetar.cursor.cursor import Cursor


class OwnEntries(Protocol):
    """The own entries of a link."""

    @property
    def damaged_at(self) -> Position | None:
        """Damaged entry at which the link has stopped."""
        ...

    @property
    def sent(self) -> tuple[int, Delivery]:
        """Number of entries that were sent, and the newest probe or marker."""
        ...

    @property
    def is_answered(self) -> bool:
        """Whether the target has confirmed each probe and marker that the holder was sent."""
        ...


class Custody(Protocol):
    """The entries in custody on a link."""

    @property
    def are_pending(self) -> bool:
        """Whether the target may lack some."""
        ...

    def lose(self) -> None:
        """Note that the content of the target is unknown."""
        ...


class ForeignEntries(Protocol):
    """The entries of other clusters on a link."""

    @property
    def custody(self) -> Custody:
        """Those in custody."""
        ...

    @property
    def has_work(self) -> bool:
        """Whether there is anything to carry, or to learn of the target."""
        ...


class CarriedLink(Protocol):
    """The link."""

    target: str
    cursor: Cursor
    target_position: TargetPosition
    lag: LinkLag
    consumer: Consumer | None
    parking: Parking
    markers: MarkerQueue | None

    @property
    def topic(self) -> LoggedTopic:
        """The topic."""
        ...

    @property
    def own(self) -> OwnEntries:
        """Its own entries."""
        ...

    @property
    def foreign(self) -> ForeignEntries:
        """Entries of other clusters on it."""
        ...

    @property
    def doubt_s(self) -> float:
        """Seconds after which a sent marker has arrived, if the holder was not lost meanwhile."""
        ...

    @property
    def is_probing(self) -> bool:
        """Whether the target has not answered the holder yet."""
        ...

    def flush_soon(self) -> None:
        """Write the cursor."""
        ...

    def let_rest(self) -> None:
        """Remove the holder of the link, which rests from now on."""
        ...


class LinkRest:
    """Whether a link rests. The carrier of the links to its target gives it a holder when it is woken."""

    def __init__(self, link: CarriedLink) -> None:
        """Create it for a link without a holder, which is due."""
        self._link = link
        self._links = link.topic.environment.resting_links
        self.bucket = link_bucket(str(link.topic.name))
        """The bucket of the link."""
        self.is_active = False
        """Whether the link rests."""
        self.is_left = False
        """Whether the last holder left the link to rest, and nothing was lost since: it rests, or it is due."""
        self._sent = link.own.sent
        self._idle_since = 0.0
        """Monotonic time since which the holder has had nothing to carry, as far as observed."""
        self._links.add(self)

    @property
    def topic_name(self) -> TopicName:
        """The topic."""
        return self._link.topic.name

    @property
    def target(self) -> str:
        """Target cluster."""
        return self._link.target

    @property
    def has_backlog(self) -> bool:
        """Whether the target has not confirmed own entries, or may lack entries in custody."""
        return bool(self._link.lag.unconfirmed) or self._link.foreign.custody.are_pending

    @property
    def pipeline(self) -> str | None:
        """Identity of the pipeline that would give the link a holder; None without one."""
        return self._links.pipeline_of(self)

    def check(self, idle_s: float) -> None:
        """Let the link rest if there has been nothing to carry for ``idle_s`` seconds.

        The content of the target stays known: the carrier of the links reports what the target loses. A marker that the
        target has not confirmed may still be on its way; the end of the holder would lose it.
        """
        link, now = self._link, self._link.topic.environment.clock.monotonic()
        sent = link.own.sent
        if link.consumer is None:
            self._links.left(self)
        elif sent != self._sent or self._has_work:
            self._sent, self._idle_since = sent, now
        elif now - self._idle_since >= self._patience_s(idle_s) and self._links.rest(self):
            self.is_active = self.is_left = True
            link.let_rest()

    def _patience_s(self, idle_s: float) -> float:
        return idle_s if self._link.own.is_answered else max(idle_s, self._link.doubt_s)

    def held(self) -> bool:
        """Note that the link has a new holder; return whether markers may have been lost before."""
        was_left, self.is_active, self.is_left = self.is_left, False, False
        self._idle_since = self._link.topic.environment.clock.monotonic()
        self._links.hold(self)
        return not was_left

    def wake(self) -> None:
        """Request a holder, if the link rests."""
        if self.is_active:
            self.request_holder()

    def dispatch(self) -> None:
        """Handle appended entries while the link has no holder; request one if the link rests and they are its own."""
        self._pass_others()
        if self.is_active and self.has_backlog:
            self.request_holder()

    def _pass_others(self) -> None:
        """Move the cursor up to the oldest unconfirmed own entry.

        Entries of other clusters must not be kept, nor count as a backlog, because this target is away.
        """
        link, ledger, oldest = self._link, self._link.topic.ledger, self._link.lag.oldest_unconfirmed
        through = ledger.last_confirmed_entry if oldest is None else ledger.previous_position(oldest)
        if through > link.cursor.state.mark_delete_position:
            link.cursor.acknowledge_cumulative(through)
            link.flush_soon()

    def request_holder(self) -> None:
        """Request a holder for the link, which has none."""
        self.is_active = False
        self._links.wake(self)

    def lose_target(self) -> None:
        """Note that the content of the target is unknown, unless the link has a holder, which verifies it."""
        if self._link.consumer is None:
            self.is_active = self.is_left = False
            self._link.target_position.lose()
            self._link.foreign.custody.lose()
            if self._link.lag.uncarried_since is None:
                self._link.lag.left()

    def close(self) -> None:
        """Forget the link."""
        self._links.remove(self)

    @property
    def _has_work(self) -> bool:
        """Whether there is anything to carry, or to learn of the target."""
        link = self._link
        return (
            self.has_backlog
            or link.is_probing
            or link.foreign.has_work
            or link.parking.reason is not None
            or link.own.damaged_at is not None
            or (link.markers is not None and bool(len(link.markers) or link.markers.has_updates))
        )
