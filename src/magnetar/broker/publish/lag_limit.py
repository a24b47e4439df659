"""Limit of the replication lag of one topic, which bounds the messages that a lost cluster takes with it.

At the limit, receipts wait in a queue of the topic (``broker.publish.receipt_gate`` decides which). The socket is still
read, up to ``maxWithheldReceiptsPerConnection``, so that other topics on the connection are not delayed, and entries go
to the log and to the other clusters. Replicated entries and links are never delayed.

A message is safe when ``at_risk_copies`` other clusters have confirmed it. A cluster does not count while its content
is unknown (``broker.replication.outbound.target_position``). No receipt is written while too few clusters count.

A cluster that has confirmed nothing for ``at_risk_absence_seconds``, although there were entries to confirm, does not
count until it has caught up. If fewer clusters than the required copies remain, all of them must have a message. If
none remains, nothing is limited; the log and the stats show this. By default every cluster counts without a time limit,
and publishing waits for an absent one.
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
    from magnetar.broker.loop.turns import Share
    from magnetar.broker.publish.interfaces import ProducerSession
    from magnetar.cursor.cursor import Cursor

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S = 1.0
"""Seconds between two checks of the clusters that count, while receipts are withheld."""

CALM_S = 10.0
"""Seconds without a withheld receipt after which publishing is no longer reported as throttled."""

WRITTEN_AT_ONCE_MAX = 500
"""Maximum number of runs whose withheld receipts one turn writes; some milliseconds of work."""


class TargetPosition(Protocol):
    """The position of a link's target."""

    @property
    def is_known(self) -> bool:
        """Whether the content of the target is known."""
        ...


class TargetLag(Protocol):
    """The lag of a link's target."""

    @property
    def backlog(self) -> int | None:
        """Number of entries that the target has not confirmed; None: unknown."""
        ...

    @property
    def stalled_since(self) -> float | None:
        """Time since which nothing was confirmed although there were entries to confirm, in monotonic seconds."""
        ...


class BoundingLink(Protocol):
    """A link to another cluster, whose confirmations release receipts."""

    @property
    def target(self) -> str:
        """Target cluster."""
        ...

    @property
    def cursor(self) -> Cursor:
        """Position that the target has confirmed."""
        ...

    @property
    def target_position(self) -> TargetPosition:
        """The position of the target, and whether its content is known."""
        ...

    @property
    def lag(self) -> TargetLag:
        """Lag of the target."""
        ...


class BoundedTopic(LoggedTopic, Protocol):
    """The topic whose receipts are limited."""

    @property
    def replicators(self) -> Mapping[str, BoundingLink]:
        """The links, by target cluster."""
        ...

    @property
    def share(self) -> Share:
        """The topic's share of the turns of the event loop."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether arriving entries are dropped without an answer."""
        ...


@dataclass(frozen=True, slots=True)
class _Withheld:
    session: ProducerSession
    last: Position
    answers: int
    """Number of receipts, or of other answers that follow receipts."""
    write: Callable[[], None]


class _Queue(deque[_Withheld]):
    """Withheld receipts, in order, and how many elements are of each session."""

    def __init__(self) -> None:
        super().__init__()
        self.of_session: dict[ProducerSession, int] = {}

    def add(self, withheld: _Withheld) -> None:
        self.append(withheld)
        self.of_session[withheld.session] = self.of_session.get(withheld.session, 0) + 1

    def take(self) -> _Withheld:
        oldest = self.popleft()
        left = self.of_session[oldest.session] = self.of_session[oldest.session] - 1
        if not left:
            del self.of_session[oldest.session]
        return oldest


class LagLimit:
    """The withheld receipts of one topic. Used on the event loop's thread."""

    def __init__(self, topic: BoundedTopic) -> None:
        """Create it; without a limit until ``apply``."""
        self.gate: ReceiptGate | None = None
        """The gate; None without a limit."""
        self.throttled_since: float | None = None
        """Time since which publishing is throttled, at least occasionally; None: not throttled recently."""
        self.withheld = 0
        """Number of withheld receipts, and of other answers that wait behind them."""
        self._topic = topic
        self._environment = topic.environment
        self._queue: _Queue | None = None
        """Created for the first receipt: an empty queue takes 760 bytes, and most topics have no limit."""
        self._last_withheld_at = 0.0
        self._absent: frozenset[str] = frozenset()
        self._timer: asyncio.TimerHandle | None = None
        self._is_forgetting = False
        """Whether producers left in this turn."""

    # -- limits ----------------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply the current policies and links of the topic."""
        policies = self._topic.policies
        bound = Bound(policies.max_at_risk_messages, policies.max_at_risk_seconds)
        if not bound.is_set or not self._topic.replicators:
            self.gate = None
        elif self.gate is None or self.gate.bound != bound:
            before = self._topic.ledger.last_confirmed_entry
            self.gate = ReceiptGate(bound, self._count, self._confirmed(self._counted) or before)
            self.gate.promised(before, self._now())
        self._check()

    def _count(self, after: Position, through: Position) -> int:
        return self._topic.log.index.count_own(self._environment.cluster, after, through)

    @property
    def _counted(self) -> list[BoundingLink]:
        return [each for each in self._topic.replicators.values() if each.target not in self._absent]

    def _confirmed(self, links: list[BoundingLink]) -> Position | None:
        """Return the position that enough of these links have confirmed; None if there are too few links."""
        wanted = min(self._topic.policies.at_risk_copies, len(self._counted))
        marks = sorted((each.cursor.state.mark_delete_position for each in links), reverse=True)
        return marks[wanted - 1] if 0 < wanted <= len(marks) else None

    @property
    def _known(self) -> list[BoundingLink]:
        """Return the links to clusters that count and whose content is known."""
        return [each for each in self._counted if each.target_position.is_known]

    @property
    def _is_unknown(self) -> bool:
        """Whether the content of too few clusters is known, so that no receipt may be written."""
        return bool(self._counted) and self._confirmed(self._known) is None

    def _find_absent(self) -> None:
        allowed_s, now = self._topic.policies.at_risk_absence_s, self._now()
        links = self._topic.replicators.items()
        found = frozenset(name for name, link in links if self._is_absent(link, allowed_s, now))
        for target in sorted(found - self._absent):
            log.warning("absent_cluster_excluded", topic=str(self._topic.name), cluster=target)
        for target in sorted(self._absent - found):
            log.info("absent_cluster_included", topic=str(self._topic.name), cluster=target)
        self._absent = found

    def _is_absent(self, link: BoundingLink, allowed_s: int, now: float) -> bool:
        if allowed_s == NO_BOUND or self.gate is None:
            return False
        if link.lag.stalled_since is not None and now - link.lag.stalled_since > allowed_s:
            return True
        # Waiting for a cluster that is hours behind would stop publishing until it has caught up.
        if link.target not in self._absent:
            return False
        return link.lag.backlog is None or link.lag.backlog > max(WINDOW_MIN, self.gate.bound.messages)

    # -- receipts ---------------------------------------------------------------------------------------------------

    def after(self, session: ProducerSession, last: Position, receipts: int, write: Callable[[], None]) -> None:
        """Call ``write``, which writes receipts up to that of ``last``, as soon as the limit allows it.

        The order of the calls is kept. Receipts do not wait when the topic is closing, since clients would send entries
        without a receipt again.
        """
        gate, now = self._present_gate, self._now()
        if self._topic.is_closing or (gate is None and not self._queue):
            write()
        elif gate is not None and not self._queue and not self._is_unknown and gate.may_promise(last, now):
            gate.promised(last, now)
            write()
        else:
            if self._queue is None:
                self._queue = _Queue()
            self._withhold(self._queue, _Withheld(session, last, receipts, write))
            if gate is not None:
                self._note_throttled(now)

    def behind_receipts(self, session: ProducerSession, write: Callable[[], None], answers: int = 1) -> None:
        """Call ``write``, which writes ``answers``, after the withheld receipts of ``session``; at once without any."""
        if self._queue and session in self._queue.of_session:
            self._withhold(self._queue, _Withheld(session, self._queue[-1].last, answers, write))
        else:
            write()

    def _withhold(self, queue: _Queue, withheld: _Withheld) -> None:
        queue.add(withheld)
        self.withheld += withheld.answers
        withheld.session.receipts_withheld(withheld.answers)

    def confirmed(self) -> None:
        """Handle a changed position of a link."""
        if self.gate is not None:
            self._release()

    def release_all(self) -> None:
        """Release all receipts, before the producers are disconnected."""
        while self._queue:
            self._write_oldest(self._queue)

    def left(self) -> None:
        """Remove the withheld receipts of ended sessions at the end of this turn."""
        if self._queue and not self._is_forgetting:
            self._is_forgetting = True
            self._environment.loop.call_soon(self._forget_gone)

    def _forget_gone(self) -> None:
        self._is_forgetting = False
        queue = self._queue
        if queue is None or all(session.is_open for session in queue.of_session):
            return
        self._queue = _Queue()
        for each in queue:
            if each.session.is_open:
                self._queue.add(each)
            else:
                self.withheld -= each.answers

    def close(self) -> None:
        """Stop withholding receipts."""
        self.gate = None
        self.release_all()
        if self._timer is not None:
            self._timer.cancel()

    def _release(self) -> None:
        gate, now = self._present_gate, self._now()
        if gate is not None:
            confirmed = self._confirmed(self._known)
            if confirmed is None:
                return
            gate.confirm(confirmed, now)
        room = WRITTEN_AT_ONCE_MAX
        while self._queue and (gate is None or gate.may_promise(self._queue[0].last, now)):
            if not room:
                self._environment.turns.soon(self._release, self._topic.share)
                return
            if gate is not None:
                gate.promised(self._queue[0].last, now)
            self._write_oldest(self._queue)
            room -= 1

    def _write_oldest(self, queue: _Queue) -> None:
        oldest = queue.take()
        self.withheld -= oldest.answers
        oldest.session.receipts_withheld(-oldest.answers)
        oldest.write()

    # -- statistics ------------------------------------------------------------------------------------------------

    @property
    def at_risk(self) -> int | None:
        """Number of receipted messages that too few other clusters have; None if it is unknown or not limited."""
        if self.gate is None or self._is_unknown:
            return None
        return self.gate.at_risk(self._topic.ledger.last_confirmed_entry)

    @property
    def _present_gate(self) -> ReceiptGate | None:
        """The gate; None if nothing is limited now."""
        return None if self._counts_nobody else self.gate

    @property
    def _counts_nobody(self) -> bool:
        return len(self._absent) == len(self._topic.replicators)

    @property
    def not_counted(self) -> list[str]:
        """Clusters that were absent for too long and have not caught up; if these are all, nothing is limited."""
        return sorted(self._absent)

    @property
    def reason(self) -> str | None:
        """Reason why publishing is throttled; None if it is not."""
        gate = self._present_gate
        if gate is None or self.throttled_since is None:
            return None
        if self._is_unknown:
            unknown = sorted(each.target for each in self._counted if not each.target_position.is_known)
            return f"the content of {' and '.join(unknown)} is not known yet"
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
        self._check_later()

    def _check_later(self) -> None:
        if self._timer is None:
            self._timer = self._environment.loop.call_later(CHECK_INTERVAL_S, self._check)

    def _check(self) -> None:
        """Update the clusters that count, and whether publishing is throttled."""
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
            self._check_later()

    def _now(self) -> float:
        return self._environment.clock.monotonic()
