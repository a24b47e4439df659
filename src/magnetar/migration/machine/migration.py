"""The state of a migration: records in, effects out. Pure.

The state is nothing but its records: the same records give the same state. A caller first stores a record durably, then
applies it, and then performs the effects that are due. After a crash, the due effects are those of the stored records,
so every effect must be harmless when it is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from magnetar.base.errors import MigrationStateError
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    StageMoved,
    SubscriptionsRemembered,
    TopicsMoved,
)
from magnetar.migration.machine.tables import (
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

    from magnetar.migration.machine.records import Record

S = TypeVar("S", TopicState, PlaceState)
E = TypeVar("E", TopicEvent, PlaceEvent)


class EffectKind(Enum):
    """What the caller does next."""

    COPY_METADATA = "copy metadata"
    """Give the target the metadata of the source, and look for topics."""
    CREATE = "create topics"
    REMEMBER_CLUSTERS = "remember clusters"
    LINK = "open links"
    AWAIT_DATA = "wait for data"
    REMEMBER_SUBSCRIPTIONS = "remember subscriptions"
    REPLICATE = "replicate subscriptions"
    AWAIT_PROGRESS = "wait for progress"
    BEGIN_SWITCH = "choose topics to switch"
    BEGIN_RETURN = "choose topics to return"
    FENCE = "fence the cluster that clients leave"
    DRAIN = "carry the last entries and acknowledgements"
    ROUTE = "send clients to the other cluster"
    RELEASE = "release the fence"
    RESTORE = "restore the settings of subscriptions"
    UNLINK = "end links"
    DELETE = "delete topics of the source"


@dataclass(frozen=True, slots=True)
class Effect:
    """Something to do for topics or places; empty: for the whole migration."""

    kind: EffectKind
    names: tuple[str, ...] = ()


_K, _T = EffectKind, TopicState
_OF_TOPICS: Final[dict[Stage, dict[TopicState, EffectKind]]] = {
    Stage.METADATA: {_T.FOUND: _K.CREATE},
    Stage.DATA: {_T.CREATED: _K.AWAIT_DATA},
    Stage.PROGRESS: {
        _T.CARRIED: _K.REMEMBER_SUBSCRIPTIONS,
        _T.REMEMBERED: _K.REPLICATE,
        _T.REPLICATED: _K.AWAIT_PROGRESS,
    },
    Stage.SWITCH: {
        _T.AGREED: _K.BEGIN_SWITCH,
        _T.FENCING: _K.FENCE,
        _T.FENCED: _K.DRAIN,
        _T.DRAINED: _K.ROUTE,
        _T.RELEASING: _K.RELEASE,
    },
    Stage.ROLLBACK: {
        _T.DRAINED: _K.ROUTE,
        _T.RELEASING: _K.RELEASE,
        _T.SWITCHED: _K.BEGIN_RETURN,
        _T.FENCING_BACK: _K.FENCE,
        _T.FENCED_BACK: _K.DRAIN,
        _T.DRAINED_BACK: _K.ROUTE,
    },
    Stage.CLEANUP: {_T.SWITCHED: _K.RESTORE},
    Stage.ABANDON: dict.fromkeys(
        (_T.FOUND, _T.CREATED, _T.CARRIED, _T.REMEMBERED, _T.REPLICATED, _T.AGREED), _K.RESTORE
    ),
}
"""Effects that are due for topics, by stage and state."""

_COMPLETIONS: Final = {
    Stage.METADATA: StageEvent.METADATA_COPIED,
    Stage.DATA: StageEvent.DATA_CARRIED,
    Stage.PROGRESS: StageEvent.PROGRESS_AGREED,
    Stage.SWITCH: StageEvent.SWITCHED,
    Stage.ROLLBACK: StageEvent.RETURNED,
    Stage.CLEANUP: StageEvent.CLEANED_UP,
    Stage.ABANDON: StageEvent.RESTORED,
}
"""Events at the end of the stages that end by themselves."""


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
    """Whether the metadata were copied, and topics looked for, since the stage METADATA began."""

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
            case TopicsMoved(event, topics):
                self._move_topics(event, topics)
            case SubscriptionsRemembered(replicated):
                self._move_topics(TopicEvent.REMEMBERED, replicated)
                for topic, settings in replicated.items():
                    known = self.replicated_before.get(topic, {})
                    self.replicated_before[topic] = {**settings, **known}  # the first setting is that before
            case PlaceMoved(event, place, clusters):
                self._move_place(event, place, clusters)

    def due(self) -> list[Effect]:
        """Return the effects that are due, in the order in which they must be performed."""
        found = []
        if self.stage is Stage.METADATA and not self.is_listed:
            found.append(Effect(EffectKind.COPY_METADATA))
        if self.stage is Stage.DATA:
            found += self._of_places(PlaceState.FOUND, EffectKind.REMEMBER_CLUSTERS)
            found += self._of_places(PlaceState.REMEMBERED, EffectKind.LINK)
        by_state = _OF_TOPICS.get(self.stage, {})
        names: dict[EffectKind, list[str]] = {}
        for topic, state in self.topics.items():
            if state in by_state:
                names.setdefault(by_state[state], []).append(topic)
        found += [Effect(kind, tuple(names[kind])) for kind in EffectKind if kind in names]
        return found or self._after_restoring()

    def completion(self) -> StageMoved | None:
        """Return the record that ends the stage; None if an effect is due, or the operator decides."""
        event = _COMPLETIONS.get(self.stage)
        return None if event is None or self.due() else StageMoved(event)

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
        self.stage = following
        if event is StageEvent.ROLL_BACK:
            self._release()
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

    def _release(self) -> None:
        """Release the fences of topics whose clients were not sent to the target."""
        for topic, state in self.topics.items():
            following = TOPICS.get((state, TopicEvent.RELEASE))
            if following is not None:
                self.topics[topic] = following[0]

    def _find(self, topics: Iterable[str], places: Iterable[str]) -> None:
        if self.stage is not Stage.METADATA:
            message = f"topics are looked for in the stage '{Stage.METADATA.value}', not '{self.stage.value}'"
            raise MigrationStateError(message)
        for name in (*topics, *places):
            if name in self.topics or name in self.places:
                message = f"{name} was found before"
                raise MigrationStateError(message)
        self.topics |= dict.fromkeys(topics, TopicState.FOUND)
        self.places |= dict.fromkeys(places, PlaceState.FOUND)
        self.is_listed = True

    def _move_topics(self, event: TopicEvent, topics: Iterable[str]) -> None:
        following = {topic: self._next_of_topic(topic, event) for topic in topics}
        self.topics |= following

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
