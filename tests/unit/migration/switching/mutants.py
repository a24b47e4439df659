"""Deliberate bugs of a switch, one at a time, that random interleavings must find."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import Found, Routed, TopicsMoved
from magnetar.migration.machine.tables import Stage, TopicEvent
from magnetar.migration.switching import handover
from magnetar.migration.switching.fence import Phase
from magnetar.migration.switching.switch import Switch
from magnetar.migration.switching.topic_move import TopicMove

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Mutant = tuple[Any, str, Callable[[Any], Any]]


def nothing_missing(_: Any) -> Any:
    return lambda *_arguments: ""


def route_without_final(_: Any) -> Any:
    def mutant(self: TopicMove, topics: Sequence[str]) -> float:
        for topic in topics:
            self._recorder.append(TopicsMoved(TopicEvent.SEALED, (topic,)))
        return 0.0

    return mutant


def fence_removed_before_the_route(original: Any) -> Any:
    def mutant(self: TopicMove, topics: Sequence[str]) -> float:
        leaving = self._clusters(topics)[0]
        for topic in topics:
            leaving.remove_fence(topic, self._recorder.epoch(topic), final=True)
        return float(original(self, topics))

    return mutant


def entered_stays_fenced(_: Any) -> Any:
    def mutant(self: TopicMove, topics: Sequence[str]) -> float:
        leaving, entered = self._clusters(topics)
        for side in (entered, leaving):
            side.set_route(self.scope, entered.name)
        self._recorder.append(TopicsMoved(TopicEvent.ROUTED, tuple(topics)))
        return 0.0

    return mutant


def never_listed(_: Any) -> Any:
    return lambda self: self._course.recorder.append(Found())


def not_held_in_the_source(original: Any) -> Any:
    def mutant(self: Switch, cluster: str) -> None:
        if self._migration.whole_route is None:
            self._course.recorder.append(Routed(cluster))
        else:
            original(self, cluster)

    return mutant


def listed_while_topics_are_created(_: Any) -> Any:
    def mutant(self: Switch) -> None:
        course, returns = self._course, self._migration.stage is Stage.ROLLBACK
        leaving, entered = (course.target, course.source) if returns else (course.source, course.target)
        new = tuple(topic for topic in leaving.topics() if topic not in self._migration.topics)
        for topic in new:
            entered.create_as_in(topic, leaving)
        course.recorder.append(Found(new))

    return mutant


def turned_back_at_once(original: Any) -> Any:
    def mutant(self: Migration) -> None:
        original(self)
        self.is_ahead = False

    return mutant


def renewed_after_the_look(original: Any) -> Any:
    def mutant(self: TopicMove, topics: Sequence[str]) -> float:
        for topic in topics:
            self._set_phase(topic, Phase.CLOSED)
        return float(original(self, topics))

    return mutant


def no_source_route_at_the_end(original: Any) -> Any:
    def mutant(self: Migration) -> Any:
        return [] if self.is_listed else original(self)

    return mutant


MUTANTS: dict[str, Mutant] = {
    "entries and acknowledgements on their way not awaited": (handover, "not_carried", nothing_missing),
    "routed without a final fence": (TopicMove, "_seal", route_without_final),
    "a final fence removed before the route": (TopicMove, "_route", fence_removed_before_the_route),
    "the fence of an earlier switch left behind": (TopicMove, "_route", entered_stays_fenced),
    "topics that are created meanwhile not looked for": (Switch, "_list", never_listed),
    "the target not closed for clients before the first topic moves": (Switch, "_route_all", not_held_in_the_source),
    "topics looked for while more are created": (Switch, "_list", listed_while_topics_are_created),
    "a rollback that forgets the route that was about to change": (Migration, "_turn_back", turned_back_at_once),
    "a fence renewed between the last look and its end": (TopicMove, "_hand_over", renewed_after_the_look),
    "the route for everything left out": (Migration, "_after_switching", no_source_route_at_the_end),
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Run with the given bug."""
    owner, attribute, make = MUTANTS[name]
    with patch.object(owner, attribute, make(getattr(owner, attribute))):
        yield
