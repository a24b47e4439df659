"""Sends the clients of one topic to the other cluster, or back: one effect at a time, each with a record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from magnetar.migration.known import sum_if_known
from magnetar.migration.machine.effects import EffectKind
from magnetar.migration.machine.partitions import route_scope
from magnetar.migration.machine.records import TopicsClosed, TopicsFenced, TopicsMoved, TopicsReleased
from magnetar.migration.machine.tables import BACK, FORWARD, TopicEvent
from magnetar.migration.sides import UnansweredError
from magnetar.migration.switching.budget import Budget
from magnetar.migration.switching.cluster import FenceRefusedError, ProducerState
from magnetar.migration.switching.fence import Phase
from magnetar.migration.switching.figures import Figures
from magnetar.migration.switching.handover import ByLinks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.migration.machine.tables import Way
    from magnetar.migration.switching.cluster import Cluster
    from magnetar.migration.switching.fence import TopicState
    from magnetar.migration.switching.handover import Handover
    from magnetar.migration.switching.recorder import Recorder

POLL_S = 0.1
"""Seconds between two looks at the same topic."""

RETRY_S = 1.0
"""Seconds between two requests to a cluster that does not answer."""

LEASE_S = 10.0
"""Lease of a fence that is not final: after the end of the migrator, clients go on in so many seconds."""

RENEW_S = LEASE_S / 3


class Clock(Protocol):
    """Time."""

    def monotonic(self) -> float:
        """Seconds since some start."""
        ...


@dataclass(frozen=True, slots=True)
class Course:
    """What the moves of all topics share."""

    source: Cluster
    target: Cluster
    recorder: Recorder
    migration: str
    """Name of the migration in fences."""
    clock: Clock
    budget: Budget = field(default_factory=Budget)
    figures: Figures = field(default_factory=Figures)
    handover: Handover = field(default_factory=ByLinks)
    """How entries and acknowledgements come to the cluster that clients enter."""


class _ExpiredError(Exception):
    """The fence of a topic has ended by itself."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


class TopicMove:
    """One attempt to move a topic with all its partitions. Used by one thread."""

    def __init__(self, course: Course, topics: Sequence[str]) -> None:
        """Move ``topics``: one topic, or all partitions of one."""
        self.scope = route_scope(topics[0])
        self.released = ""
        """Why the topic was released in this attempt; empty: it was not."""
        self._course = course
        self._topics = tuple(topics)
        self._recorder = course.recorder
        self._began: float | None = None
        self._fenced: float | None = None
        self._renewed: dict[str, float] = {}
        self._silent_since: float | None = None
        self._waits_for = "the topic has not been fenced in time"
        self._incomplete: tuple[str, ...] = ()
        """Partitions whose messages or acknowledgements were not complete at the last look; looked at first."""
        self._perform = {
            EffectKind.BEGIN_SWITCH: self._begin,
            EffectKind.BEGIN_RETURN: self._begin,
            EffectKind.FENCE: self._fence,
            EffectKind.SETTLE: self._settle,
            EffectKind.DRAIN: self._drain,
            EffectKind.HAND_OVER: self._hand_over,
            EffectKind.SEAL: self._seal,
            EffectKind.ROUTE: self._route,
            EffectKind.RELEASE: self._release,
        }

    def step(self) -> float | None:
        """Perform the effect that is due; return the seconds until the next step, None if there is none.

        Raises UnansweredError if a cluster has not answered for as long as a topic may take.
        """
        effect = self._recorder.due_for(self._topics)
        if effect is None or (self.released and effect.kind in _BEGINNINGS and not self._is_committed):
            return None
        try:
            wait = self._perform[effect.kind](effect.names)
        except _ExpiredError as error:
            wait = self._expire(error.topic)
        except UnansweredError as error:
            return self._retry(error)
        self._silent_since = None
        return wait

    def withdraw(self) -> None:
        """Let clients go on where they are, if that is still possible."""
        self._give_up("the command was interrupted")
        effect = self._recorder.due_for(self._topics)
        if effect is not None and effect.kind is EffectKind.RELEASE:
            self._release(effect.names)

    # --- the steps ---------------------------------------------------------------------------------------------------

    def _begin(self, topics: Sequence[str]) -> float:
        entered = self._clusters(topics)[1]
        for topic in topics:
            self._course.handover.prepare(topic, entered)
        self._recorder.append(TopicsMoved(TopicEvent.FENCE, tuple(topics)))
        self._began, self._fenced = self._course.clock.monotonic(), None
        self.released = ""
        return 0.0

    def _fence(self, topics: Sequence[str]) -> float:
        try:
            found = {topic: self._set_phase(topic, Phase.SETTLING) for topic in topics}
        except FenceRefusedError as error:
            return self._give_up(str(error))
        self._recorder.append(TopicsFenced({topic: _replicated(state) for topic, state in found.items()}))
        self._fenced = self._course.clock.monotonic()
        return 0.0

    def _settle(self, topics: Sequence[str]) -> float:
        leaving, now = self._clusters(topics)[0], self._course.clock.monotonic()
        found = {topic: self._look(topic, leaving, Phase.SETTLING, Phase.CLOSED) for topic in topics}
        self._fenced = now if self._fenced is None else self._fenced
        held = sum_if_known(state.unacknowledged for state in found.values())
        for topic, state in found.items():
            for name in _unreplicated(state):
                leaving.replicate(topic, name)
        has_begun_to_close = any(not _is_settling(state) for state in found.values())
        if not has_begun_to_close and not self._course.budget.is_settled(held, now - self._fenced):
            self._renew(topics, Phase.SETTLING)
            return POLL_S
        for topic in topics:
            self._follow_with(topic, Phase.CLOSED)
        self._recorder.append(TopicsClosed({topic: _held(state) for topic, state in found.items()}))
        return 0.0

    def _drain(self, topics: Sequence[str]) -> float:
        leaving, entered = self._clusters(topics)
        self._renew(topics, Phase.CLOSED)  # before the look, which shows whether the fence was there all the time
        others = tuple(topic for topic in topics if topic not in self._incomplete)
        for some in (self._incomplete, others):
            # All of them in the same round: a look may also bring what is missing, or send clients away.
            reasons = {
                topic: self._course.handover.missing(topic, entered, partial(self._look, topic, leaving, Phase.CLOSED))
                for topic in some
            }
            self._incomplete = tuple(topic for topic, reason in reasons.items() if reason)
            if self._incomplete:
                first = self._incomplete[0]
                self._waits_for = f"{first}: {reasons[first]}"
                return self._wait_or_give_up()
        self._recorder.append(TopicsMoved(TopicEvent.DRAINED, tuple(topics)))
        return 0.0

    def _hand_over(self, topics: Sequence[str]) -> float:
        """Let the target translate ids of the source. The source does not translate those of the target (ADR 39).

        The entered cluster gets what producers continue, and no link brings: the epoch of exclusive ones, and sequence
        ids whose messages are trimmed. The fence is not renewed from now on: a renewal could hide that it has ended
        since the last look.
        """
        leaving, entered = self._clusters(topics)
        for topic in topics:
            state = leaving.producer_state(topic)
            if state != ProducerState():
                entered.add_producer_state(topic, state)
        if self._way(topics) is FORWARD:
            for topic in topics:
                reason = entered.set_former(topic, leaving.name)
                if reason and not self._is_committed:
                    return self._give_up(f"{topic}: message ids of {leaving.name} cannot be translated: {reason}")
        self._recorder.append(TopicsMoved(TopicEvent.SEAL, tuple(topics)))
        return 0.0

    def _seal(self, topics: Sequence[str]) -> float:
        for topic in topics:
            self._follow_with(topic, Phase.FINAL)
            self._recorder.append(TopicsMoved(TopicEvent.SEALED, (topic,)))
        return 0.0

    def _route(self, topics: Sequence[str]) -> float:
        leaving, entered = self._clusters(topics)
        entered.set_route(self.scope, entered.name)
        for topic in topics:
            entered.remove_fence(topic, self._recorder.epoch(topic), final=True)
        routed = self._course.clock.monotonic()
        leaving.set_route(self.scope, entered.name)
        self._recorder.append(TopicsMoved(TopicEvent.ROUTED, tuple(topics)))
        self._course.figures.routed(topics, None if self._began is None else routed - self._began)
        self.released = ""
        return 0.0

    def _release(self, topics: Sequence[str]) -> float:
        leaving = self._clusters(topics)[0]
        for topic in topics:
            with suppress(FenceRefusedError):  # the fence of another migration stays; a final one is never released
                leaving.remove_fence(topic, self._recorder.epoch(topic))
        self._recorder.append(TopicsMoved(TopicEvent.RELEASED, tuple(topics)))
        return 0.0

    # --- time --------------------------------------------------------------------------------------------------------

    def _wait_or_give_up(self) -> float:
        now = self._course.clock.monotonic()
        since = self._began if self._began is not None else self._fenced
        if since is None:
            since = self._fenced = now
        return self._give_up(self._waits_for) if self._course.budget.is_exceeded(now - since) else POLL_S

    def _retry(self, error: UnansweredError) -> float:
        """Ask a silent cluster again, as long as a topic may take."""
        now = self._course.clock.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if self._course.budget.is_exceeded(now - self._silent_since):
            raise error
        return RETRY_S

    def _renew(self, topics: Sequence[str], phase: Phase) -> None:
        now = self._course.clock.monotonic()
        for topic in topics:
            if now - self._renewed.get(topic, 0.0) >= RENEW_S:
                self._follow_with(topic, phase)

    # --- fences ------------------------------------------------------------------------------------------------------

    def _set_phase(self, topic: str, phase: Phase) -> TopicState:
        found = self._clusters([topic])[0].fence(topic, self._recorder.epoch(topic), phase)
        self._renewed[topic] = self._course.clock.monotonic()
        return found

    def _follow_with(self, topic: str, phase: Phase) -> None:
        """Set a phase of the fence that this attempt has begun; a refusal means that the fence has ended."""
        try:
            self._set_phase(topic, phase)
        except FenceRefusedError:
            raise _ExpiredError(topic) from None

    def _look(self, topic: str, leaving: Cluster, *phases: Phase, digests: bool = False) -> TopicState:
        """Return the state of a topic with the fence of this attempt."""
        state = leaving.look(topic, digests=digests)
        fence = state.fence
        if fence is None or fence.phase not in phases:
            raise _ExpiredError(topic)
        if (fence.migration, fence.epoch) != (self._course.migration, self._recorder.epoch(topic)):
            raise _ExpiredError(topic)
        return state

    def _give_up(self, reason: str) -> float:
        """Release the topic, unless one of its partitions only goes forward: then everything is tried again."""
        states = self._recorder.states(self._topics)
        waiting = tuple(topic for topic, state in zip(self._topics, states, strict=True) if state in _REVOCABLE)
        if waiting and not self._is_committed:
            self._recorder.append(TopicsReleased(TopicEvent.RELEASE, waiting, reason))
            self.released = reason
        return POLL_S

    def _expire(self, topic: str) -> float:
        reason = f"the fence of {topic} has ended by itself"
        self._recorder.append(TopicsReleased(TopicEvent.EXPIRED, (topic,), reason))
        self.released = reason
        return self._give_up(reason)

    # --- directions --------------------------------------------------------------------------------------------------

    @property
    def _is_committed(self) -> bool:
        return self._recorder.is_committed(self._topics[0])

    def _way(self, topics: Sequence[str]) -> Way:
        state = self._recorder.states(topics)[0]
        return FORWARD if state in (FORWARD.start, *FORWARD.between) else BACK

    def _clusters(self, topics: Sequence[str]) -> tuple[Cluster, Cluster]:
        """Return the cluster that clients leave, and the one that they enter."""
        course = self._course
        return (course.source, course.target) if self._way(topics) is FORWARD else (course.target, course.source)


_BEGINNINGS = (EffectKind.BEGIN_SWITCH, EffectKind.BEGIN_RETURN)
_REVOCABLE = (*FORWARD.revocable, *BACK.revocable)


def _replicated(state: TopicState) -> Mapping[str, bool]:
    return {name: each.is_replicated for name, each in state.subscriptions.items()}


def _unreplicated(state: TopicState) -> list[str]:
    return [name for name, each in state.subscriptions.items() if not each.is_replicated]


def _held(state: TopicState) -> int | None:
    """Return the messages that consumers hold; None if the fence was closed before, when they were disconnected."""
    return state.unacknowledged if _is_settling(state) else None


def _is_settling(state: TopicState) -> bool:
    return state.fence is not None and state.fence.phase is Phase.SETTLING
