"""The state of a migration: records in, effects out. Pure.

The state is nothing but its records: the same records give the same state. A caller first stores a record durably, then
applies it, and then performs the effects that are due. After a crash, the due effects are those of the stored records,
so every effect must be harmless when it is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from magnetar.base.errors import MigrationStateError
from magnetar.migration.machine.effects import COMPLETIONS, OF_TOPICS, Effect, EffectKind
from magnetar.migration.machine.partitions import partitions_of
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    Routed,
    StageMoved,
    SubscriptionsRemembered,
    TopicsClosed,
    TopicsFenced,
    TopicsMoved,
    TopicsReleased,
)
from magnetar.migration.machine.tables import (
    BACK,
    FORWARD,
    PLACES,
    REQUIRED_PLACES,
    REQUIRED_TOPICS,
    STAGES,
    TOPICS,
    PlaceEvent,
    PlaceState,
    Stage,
    StageEvent,
    TopicEvent,
    TopicState,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from enum import Enum

    from magnetar.migration.machine.records import Record

S = TypeVar("S", TopicState, PlaceState)
E = TypeVar("E", TopicEvent, PlaceEvent)


_WITH_A_RECORD: Final = frozenset(
    {TopicEvent.REMEMBERED, TopicEvent.FENCED, TopicEvent.CLOSED, TopicEvent.RELEASE, TopicEvent.EXPIRED}
)
"""Events of topics that have a record of their own."""


@dataclass(slots=True)
class Migration:
    """The state after some records."""

    begun: Begun | None = None
    stage: Stage = Stage.METADATA
    topics: dict[str, TopicState] = field(default_factory=dict)
    places: dict[str, PlaceState] = field(default_factory=dict)
    replicated_before: dict[str, dict[str, bool]] = field(default_factory=dict)
    """By topic and subscription: whether it was replicated before the migration."""
    clusters_before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By place: its clusters before the migration."""
    differences: int | None = None
    """Findings of the last verification; None: nothing was verified since the last change."""
    is_listed: bool = False
    """Whether no topic is unknown. In a switch, the decision to let one route lead to the other cluster follows."""
    whole_route: str | None = None
    """The cluster to which the route of the tenant leads, so that it has new topics; None: this is unknown."""
    is_tidy: bool = False
    """Whether one route has replaced those of topics since the present switch or rollback began."""
    is_ahead: bool = False
    """Whether the rollback began when one route was about to lead to the target, which is done first."""
    epochs: dict[str, int] = field(default_factory=dict)
    """By topic: the number of the last attempt to send its clients to the other cluster."""
    unacknowledged: dict[str, int | None] = field(default_factory=dict)
    """By topic: the messages that consumers held when it was last closed; None: unknown."""
    released: dict[str, str] = field(default_factory=dict)
    """By topic: why it was released in the present switch or rollback, until it is fenced again."""

    def apply(self, record: Record) -> None:
        """Apply a record; raises MigrationStateError, and changes nothing, if it is illegal now."""
        if (self.begun is None) != isinstance(record, Begun):
            raise MigrationStateError("the migration has begun" if self.begun else "the migration has not begun")
        match record:
            case Begun():
                self.begun = record
            case StageMoved(event, differences):
                self._move_stage(event, differences)
            case Found(topics, places):
                self._find(topics, places)
            case TopicsMoved() | TopicsFenced() | TopicsClosed() | TopicsReleased():
                self._apply_to_topics(record)
            case SubscriptionsRemembered(replicated):
                self._move_topics(TopicEvent.REMEMBERED, replicated)
                for topic, settings in replicated.items():
                    self._remember(topic, settings)
            case PlaceMoved(event, place, clusters):
                self._move_place(event, place, clusters)
            case Routed(cluster):
                self._route_all(cluster)

    def _apply_to_topics(self, record: TopicsMoved | TopicsFenced | TopicsClosed | TopicsReleased) -> None:
        match record:
            case TopicsMoved(event, topics):
                if event in _WITH_A_RECORD:
                    message = f"'{event.value}' of topics has a record of its own"
                    raise MigrationStateError(message)
                self._move_topics(event, topics)
                if event is TopicEvent.FENCE:
                    for topic in topics:
                        self.epochs[topic] = self.epochs.get(topic, 0) + 1
                        self.released.pop(topic, None)
            case TopicsFenced(replicated):
                self._move_topics(TopicEvent.FENCED, replicated)
                for topic, settings in replicated.items():
                    self._remember(topic, settings)
            case TopicsClosed(unacknowledged):
                self._move_topics(TopicEvent.CLOSED, unacknowledged)
                self.unacknowledged |= unacknowledged
            case TopicsReleased(event, topics, reason):
                if event not in (TopicEvent.RELEASE, TopicEvent.EXPIRED):
                    message = f"'{event.value}' has no reason"
                    raise MigrationStateError(message)
                self._move_topics(event, topics)
                self.released |= dict.fromkeys(topics, reason)

    def due(self) -> list[Effect]:
        """Return the effects that are due, in the order in which they must be performed."""
        found = []
        if self.stage is Stage.METADATA and not self.is_listed:
            found.append(Effect(EffectKind.COPY_METADATA))
        if self.stage is Stage.DATA:
            found += self._of_places(PlaceState.FOUND, EffectKind.REMEMBER_CLUSTERS)
            found += self._of_places(PlaceState.REMEMBERED, EffectKind.LINK)
        first = self._before_topics()
        if first is not None:
            return [Effect(EffectKind.ROUTE_ALL, (first,))]
        found += self.due_for(self.topics)
        return found or self._after_topics()

    def due_for(self, topics: Iterable[str]) -> list[Effect]:
        """Return the effects that are due for some topics, in the order in which they must be performed."""
        by_state = OF_TOPICS.get(self.stage, {})
        names: dict[EffectKind, list[str]] = {}
        for topic in topics:
            kind = by_state.get(self.topics[topic])
            if kind is not None and self._is_for(topic, kind):
                names.setdefault(kind, []).append(topic)
        return [Effect(kind, tuple(names[kind])) for kind in EffectKind if kind in names]

    def is_committed(self, topic: str) -> bool:
        """Return whether the topic, or another partition of it, only goes forward."""
        states = [self.topics[each] for each in partitions_of(topic, self.topics)]
        return any(state in (*FORWARD.committed, *BACK.committed) for state in states)

    def _is_for(self, topic: str, kind: EffectKind) -> bool:
        """Return whether an effect that fits the state of a topic is due in a rollback, too."""
        if self.stage is Stage.ROLLBACK and kind in (EffectKind.BEGIN_SWITCH, EffectKind.BEGIN_RETURN):
            states = [self.topics[each] for each in partitions_of(topic, self.topics)]
            return (kind is EffectKind.BEGIN_SWITCH) == any(state in FORWARD.committed for state in states)
        return True

    def _before_topics(self) -> str | None:
        """Return the cluster to which one route must lead before any topic moves; None: none must."""
        if self.stage is Stage.SWITCH and self.whole_route is None:  # the target could still serve clients
            return None if self.begun is None else self.begun.source
        if self.stage is Stage.ROLLBACK and self.is_ahead:
            return None if self.begun is None else self.begun.target
        return None

    def completion(self) -> StageMoved | None:
        """Return the record that ends the stage; None if an effect is due, or the operator decides."""
        event = COMPLETIONS.get(self.stage)
        return None if event is None or self.due() else StageMoved(event)

    def _after_topics(self) -> list[Effect]:
        """Return the effects that are due when none is due for a topic."""
        if self.stage in (Stage.SWITCH, Stage.ROLLBACK):
            return self._after_switching()
        return self._after_restoring()

    def _after_switching(self) -> list[Effect]:
        """Return the last effects of SWITCH and ROLLBACK: one route replaces those of topics."""
        assert self.begun is not None
        goal = self.begun.target if self.stage is Stage.SWITCH else self.begun.source
        if not self.is_listed:
            return [Effect(EffectKind.LIST)]
        return [] if self.is_tidy and self.whole_route == goal else [Effect(EffectKind.ROUTE_ALL, (goal,))]

    def _after_restoring(self) -> list[Effect]:
        """Return the last effects of CLEANUP and ABANDON: links end before topics are deleted."""
        if self.stage not in (Stage.CLEANUP, Stage.ABANDON):
            return []
        open_places = tuple(place for place, state in self.places.items() if state is not PlaceState.UNLINKED)
        if open_places:
            return [Effect(EffectKind.UNLINK, open_places)]
        kept = tuple(topic for topic, state in self.topics.items() if state is TopicState.RESTORED)
        return [Effect(EffectKind.DELETE, kept)] if kept and self.stage is Stage.CLEANUP else []

    def _of_places(self, state: PlaceState, kind: EffectKind) -> list[Effect]:
        names = tuple(place for place, known in self.places.items() if known is state)
        return [Effect(kind, names)] if names else []

    def _move_stage(self, event: StageEvent, differences: int | None) -> None:
        following = STAGES.get((self.stage, event))
        if following is None:
            message = f"the migration is in the stage '{self.stage.value}', in which '{event.value}' is not possible"
            raise MigrationStateError(message)
        if (differences is not None) != (event is StageEvent.VERIFIED):
            message = f"'{event.value}' with the result {differences}"
            raise MigrationStateError(message)
        if event is StageEvent.SWITCH and self.differences != 0:
            known = "was not verified" if self.differences is None else f"has {self.differences} differences"
            message = f"the migration {known}\nhint: magnetar migrate verify"
            raise MigrationStateError(message)
        self._require(event, self.topics, REQUIRED_TOPICS)
        self._require(event, self.places, REQUIRED_PLACES)
        if event in (StageEvent.SWITCHED, StageEvent.RETURNED) and self._after_switching():
            message = f"'{event.value}' is not possible: {self._after_switching()[0].kind.value}"
            raise MigrationStateError(message)
        if event is StageEvent.SWITCH:
            self.is_listed, self.whole_route = False, None
        elif event is StageEvent.ROLL_BACK:
            self._turn_back()
        self.stage = following
        if event in (StageEvent.SWITCH, StageEvent.ROLL_BACK):
            self.is_tidy = False
            self.released.clear()
        if event in (StageEvent.LOOK_AGAIN, StageEvent.RETURNED, StageEvent.VERIFIED):
            self.differences = differences
        if event is StageEvent.LOOK_AGAIN:
            self.is_listed = False

    def _require(
        self, event: StageEvent, states: Mapping[str, Enum], required: Mapping[StageEvent, frozenset[Enum]]
    ) -> None:
        allowed = required.get(event)
        for name, state in states.items():
            if allowed is not None and state not in allowed:
                message = f"'{event.value}' is not possible: {name} is {state.value}"
                raise MigrationStateError(message)

    def _turn_back(self) -> None:
        """Begin a rollback: release the fences of topics on their way to the target that can stay in the source."""
        assert self.begun is not None
        is_beyond = self.whole_route == self.begun.target
        self.is_ahead = self.is_listed and not is_beyond
        self.is_listed = not is_beyond  # otherwise the target has topics that are not known
        waiting = [topic for topic, state in self.topics.items() if state in FORWARD.revocable]
        for topic in waiting:
            if not self.is_committed(topic):
                self.topics[topic] = FORWARD.releasing

    def _find(self, topics: Iterable[str], places: Iterable[str]) -> None:
        first = {Stage.METADATA: TopicState.FOUND, Stage.SWITCH: FORWARD.start, Stage.ROLLBACK: BACK.start}
        if self.stage not in first or (places and self.stage is not Stage.METADATA):
            message = f"topics are looked for in the stage '{Stage.METADATA.value}', not '{self.stage.value}'"
            raise MigrationStateError(message)
        for name in (*topics, *places):
            if name in self.topics or name in self.places:
                message = f"{name} was found before"
                raise MigrationStateError(message)
        self.topics |= dict.fromkeys(topics, first[self.stage])
        self.places |= dict.fromkeys(places, PlaceState.FOUND)
        self.is_listed = self.stage is Stage.METADATA or not topics

    def _route_all(self, cluster: str) -> None:
        effect = Effect(EffectKind.ROUTE_ALL, (cluster,))
        if effect not in self.due():
            message = f"no route for everything to {cluster} is possible in the stage '{self.stage.value}'"
            raise MigrationStateError(message)
        if self.is_ahead:
            self.is_ahead = self.is_listed = False
        self.whole_route, self.is_tidy = cluster, True

    def _remember(self, topic: str, replicated: Mapping[str, bool]) -> None:
        """Keep the settings of subscriptions; the first one is that before the migration."""
        self.replicated_before[topic] = {**replicated, **self.replicated_before.get(topic, {})}

    def _move_topics(self, event: TopicEvent, topics: Iterable[str]) -> None:
        following = {topic: self._next_of_topic(topic, event) for topic in topics}
        for topic in following:
            self._require_of_partitions(topic, event, self.topics | following)
        self.topics |= following

    def _require_of_partitions(self, topic: str, event: TopicEvent, after: Mapping[str, TopicState]) -> None:
        """Refuse an event of a topic that does not fit the other partitions, whose states are those ``after`` it."""
        allowed = self._allowed_beside(topic, event)
        for other in partitions_of(topic, self.topics):
            if allowed is not None and after[other] not in allowed:
                message = f"'{event.value}' of {topic} is not possible: {other} is {after[other].value}"
                raise MigrationStateError(message)

    def _allowed_beside(self, topic: str, event: TopicEvent) -> Collection[TopicState] | None:
        """Return the states that all partitions of a topic may have after an event; None: any."""
        before = self.topics[topic]
        way = FORWARD if before in (FORWARD.start, *FORWARD.between) else BACK
        match event:
            case TopicEvent.SEAL:
                return (way.drained, *way.committed, way.end)
            case TopicEvent.ROUTED:
                return (way.end,)
            case TopicEvent.RELEASE:
                return {*TopicState} - {*FORWARD.committed, *BACK.committed}
            case TopicEvent.FENCE if self.stage is Stage.ROLLBACK and way is FORWARD and not self.is_committed(topic):
                return ()
        return None

    def _next_of_topic(self, topic: str, event: TopicEvent) -> TopicState:
        following = self._next(topic, self.topics.get(topic), event, TOPICS)
        if event is TopicEvent.DELETED and any(each is not PlaceState.UNLINKED for each in self.places.values()):
            message = f"{topic} cannot be deleted while links are open"
            raise MigrationStateError(message)
        return following

    def _next(
        self, name: str, state: S | None, event: E, table: Mapping[tuple[S, E], tuple[S, Collection[Stage]]]
    ) -> S:
        """Return the next state of a topic or place by its table; raises MigrationStateError if there is none."""
        found = None if state is None else table.get((state, event))
        if found is None or self.stage not in found[1]:
            known = "not known" if state is None else state.value
            message = f"{name} is {known}: '{event.value}' is not possible in the stage '{self.stage.value}'"
            raise MigrationStateError(message)
        return found[0]

    def _move_place(self, event: PlaceEvent, place: str, clusters: tuple[str, ...] | None) -> None:
        following = self._next(place, self.places.get(place), event, PLACES)
        if (clusters is not None) != (event is PlaceEvent.REMEMBERED):
            message = f"{place}: '{event.value}' with the clusters {clusters}"
            raise MigrationStateError(message)
        self.places[place] = following
        if clusters is not None:
            self.clusters_before[place] = clusters
