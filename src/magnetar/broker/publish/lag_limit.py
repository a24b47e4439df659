"""Limited lag of one topic: what the loss of this cluster can cost has a bound, because publishing slows down at it.

Receipts wait in a queue of the topic (``broker.publish.receipt_gate`` says which, and why). The socket is read on, up
to ``maxWithheldReceiptsPerConnection``, so that other topics on the same connection are not held up, and the entries go
to the log and from there to the other clusters. Entries that were replicated to here, and links, are never held up.

A message counts as safe once ``at_risk_copies`` other clusters have confirmed it. A cluster is no copy while it is not
known what it holds (``broker.replication.outbound.target_position``). Nothing is promised while too few are left.

A cluster that has confirmed nothing for ``at_risk_absence_seconds``, though there was something to confirm, does not
count until it has caught up: with fewer left than copies wanted, all that are left must have it, and with none left
nothing is bounded any more, which is logged and shown. By default every cluster counts for ever, and publishing waits
for one that is away.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from magnetar.broker.log.interfaces import LoggedTopic
from magnetar.broker.publish.receipt_gate import NO_BOUND, WINDOW_MIN, Bound, ReceiptGate

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from magnetar.base.position import Position
    from magnetar.broker.publish.interfaces import ProducerSession
    from magnetar.cursor.cursor import Cursor

log = structlog.get_logger(__name__)

LOOK_INTERVAL_S = 1.0
"""Seconds between two looks at who counts, while receipts are withheld."""

CALM_S = 10.0
"""Seconds without a withheld receipt after which publishing counts as no longer throttled."""


class TargetPosition(Protocol):
    """What is known of the position of a link's target."""

    @property
    def is_known(self) -> bool:
        """Whether it is known what the target holds."""
        ...


class TargetLag(Protocol):
    """How far the target of a link is behind."""

    @property
    def backlog(self) -> int | None:
        """Entries that the other cluster has not confirmed; None while that is not known."""
        ...

    @property
    def stalled_since(self) -> float | None:
        """Since when nothing was confirmed though there was something to confirm, in monotonic seconds."""
        ...


class BoundingLink(Protocol):
    """A link to another cluster, whose confirmations let receipts go."""

    @property
    def target(self) -> str:
        """The other cluster."""
        ...

    @property
    def cursor(self) -> Cursor:
        """What the other cluster has confirmed."""
        ...

    @property
    def target_position(self) -> TargetPosition:
        """Whether it is known what the other cluster holds."""
        ...

    @property
    def lag(self) -> TargetLag:
        """How far the other cluster is behind."""
        ...


class BoundedTopic(LoggedTopic, Protocol):
    """The topic whose receipts are bounded."""

    @property
    def replicators(self) -> Mapping[str, BoundingLink]:
        """The links, by the other cluster."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether entries that come are dropped, unanswered."""
        ...


@dataclass(frozen=True, slots=True)
class _Withheld:
    session: ProducerSession
    last: Position
    receipts: int
    write: Callable[[], None]


class LagLimit:
    """The withheld receipts of one topic. Everything happens on the event loop's thread."""

    def __init__(self, topic: BoundedTopic) -> None:
        """Bound nothing, until ``apply``."""
        self.gate: ReceiptGate | None = None
        """None while nothing is bounded: then it costs nothing but this look."""
        self.throttled_since: float | None = None
        """Since when publishing has been held up, now and then at least; None: it has not been lately."""
        self.withheld = 0
        """Receipts that wait."""
        self._topic = topic
        self._environment = topic.environment
        self._queue: deque[_Withheld] = deque()
        self._last_withheld_at = 0.0
        self._absent: frozenset[str] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self._is_forgetting = False
        """Whether producers left in this turn."""

    # -- what bounds ------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Follow the topic's policies and links as they are now."""
        policies = self._topic.policies
        bound = Bound(policies.max_at_risk_messages, policies.max_at_risk_seconds)
        if not bound.is_set or not self._topic.replicators:
            self.gate = None
        elif self.gate is None or self.gate.bound != bound:
            before = self._topic.ledger.last_confirmed_entry
            self.gate = ReceiptGate(bound, self._count, self._confirmed(self._counted) or before)
            self.gate.promised(before, self._now())
        self._look()

    def _count(self, after: Position, through: Position) -> int:
        return self._topic.log.index.count_own(self._environment.cluster, after, through)

    @property
    def _counted(self) -> list[BoundingLink]:
        return [each for each in self._topic.replicators.values() if each.target not in self._absent]

    def _confirmed(self, links: list[BoundingLink]) -> Position | None:
        """Up to where enough of the clusters that count have everything by these links; None for too few links."""
        wanted = min(self._topic.policies.at_risk_copies, len(self._counted))
        marks = sorted((each.cursor.state.mark_delete_position for each in links), reverse=True)
        return marks[wanted - 1] if 0 < wanted <= len(marks) else None

    @property
    def _known(self) -> list[BoundingLink]:
        """The links of the clusters that count and of which it is known what they hold."""
        return [each for each in self._counted if each.target_position.is_known]

    @property
    def _is_unknown(self) -> bool:
        """Whether it is known of too few clusters what they hold: then nothing may be promised."""
        return bool(self._counted) and self._confirmed(self._known) is None

    def _find_absent(self) -> None:
        allowed_s, now = self._topic.policies.at_risk_absence_s, self._now()
        links = self._topic.replicators.items()
        found = frozenset(name for name, link in links if self._is_absent(link, allowed_s, now))
        for target in sorted(found - self._absent):
            log.warning("absent_cluster_counts_no_more", topic=str(self._topic.name), cluster=target)
        for target in sorted(self._absent - found):
            log.info("absent_cluster_counts_again", topic=str(self._topic.name), cluster=target)
        self._absent = found

    def _is_absent(self, link: BoundingLink, allowed_s: int, now: float) -> bool:
        if allowed_s == NO_BOUND or self.gate is None:
            return False
        if link.lag.stalled_since is not None and now - link.lag.stalled_since > allowed_s:
            return True
        # To wait for one that is hours behind would stop publishing for as long as it catches up.
        if link.target not in self._absent:
            return False
        return link.lag.backlog is None or link.lag.backlog > max(WINDOW_MIN, self.gate.bound.messages)

    # -- receipts ---------------------------------------------------------------------------------------------------

    def after(self, session: ProducerSession, last: Position, receipts: int, write: Callable[[], None]) -> None:
        """Call ``write``, which writes so many receipts up to that of ``last``, as soon as the bound allows it.

        In the order of the calls. Nothing waits once the topic is closing: what has no receipt would be sent again.
        """
        gate, now = self.gate, self._now()
        if gate is None or self._topic.is_closing or self._counts_nobody:
            write()
        elif not self._queue and not self._is_unknown and gate.may_promise(last, now):
            gate.promised(last, now)
            write()
        else:
            self._queue.append(_Withheld(session, last, receipts, write))
            self.withheld += receipts
            session.receipts_withheld(receipts)
            self._note_throttled(now)

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None]) -> None:
        """Call ``write`` behind the receipts that ``session`` waits for, at once where it waits for none."""
        if any(each.session is session for each in self._queue):
            self._queue.append(_Withheld(session, self._queue[-1].last, 0, write))
        else:
            write()

    def confirmed(self) -> None:
        """A link has confirmed more, or went back."""
        if self.gate is not None:
            self._release()

    def release_all(self) -> None:
        """Let go of everything, before the producers are sent away."""
        while self._queue:
            self._write_oldest()

    def left(self) -> None:
        """A session may have ended: forget at the end of this turn what those wait for that have."""
        if self._queue and not self._is_forgetting:
            self._is_forgetting = True
            self._environment.loop.call_soon(self._forget_gone)

    def _forget_gone(self) -> None:
        self._is_forgetting = False
        gone = [each for each in self._queue if not each.session.is_open]
        if gone:
            self.withheld -= sum(each.receipts for each in gone)
            self._queue = deque(each for each in self._queue if each.session.is_open)

    def close(self) -> None:
        """Withhold nothing any more."""
        self.gate = None
        self.release_all()
        if self._timer is not None:
            self._timer.cancel()

    def _release(self) -> None:
        gate, now = self.gate, self._now()
        if gate is None or self._counts_nobody:
            self.release_all()
            return
        confirmed = self._confirmed(self._known)
        if confirmed is None:
            return
        gate.confirm(confirmed, now)
        while self._queue and gate.may_promise(self._queue[0].last, now):
            gate.promised(self._queue[0].last, now)
            self._write_oldest()

    def _write_oldest(self) -> None:
        oldest = self._queue.popleft()
        self.withheld -= oldest.receipts
        oldest.session.receipts_withheld(-oldest.receipts)
        oldest.write()

    # -- telling ----------------------------------------------------------------------------------------------------

    @property
    def at_risk(self) -> int | None:
        """Messages published here that too few other clusters have; None while that is not known, or not bounded."""
        if self.gate is None or self._is_unknown:
            return None
        return self.gate.at_risk(self._topic.ledger.last_confirmed_entry)

    @property
    def _counts_nobody(self) -> bool:
        return len(self._absent) == len(self._topic.replicators)

    @property
    def not_counted(self) -> list[str]:
        """The clusters that were absent for too long and have not caught up; where it is all, nothing is bounded."""
        return sorted(self._absent)

    @property
    def reason(self) -> str | None:
        """What slows publishing down; None when nothing does."""
        gate = self.gate
        if gate is None or self.throttled_since is None or self._counts_nobody:
            return None
        if self._is_unknown:
            unknown = sorted(each.target for each in self._counted if not each.target_position.is_known)
            return f"it is not known yet what {' and '.join(unknown)} holds"
        limits = [
            text
            for limit, text in (
                (gate.bound.messages, f"at most {gate.bound.messages} messages"),
                (gate.bound.seconds, f"messages of at most {gate.bound.seconds} s"),
            )
            if limit != NO_BOUND
        ]
        copies = self._topic.policies.at_risk_copies
        return f"{' and '.join(limits)} may be in fewer than {copies} other clusters, {self.at_risk} are"

    def _note_throttled(self, now: float) -> None:
        self._last_withheld_at = now
        if self.throttled_since is None:
            self.throttled_since = now
            log.warning("publishing_throttled", topic=str(self._topic.name), reason=self.reason)
        self._look_later()

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = self._environment.loop.call_later(LOOK_INTERVAL_S, self._look)

    def _look(self) -> None:
        """See who counts, and whether publishing is throttled at all."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._find_absent()
        self._release()
        now = self._now()
        if self._queue:
            self._last_withheld_at = now
        elif self.throttled_since is not None and now - self._last_withheld_at >= CALM_S:
            self.throttled_since = None
            log.info("publishing_not_throttled", topic=str(self._topic.name))
        if self.throttled_since is not None or self._absent:
            self._look_later()

    def _now(self) -> float:
        return self._environment.clock.monotonic()
