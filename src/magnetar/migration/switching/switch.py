"""Sends the clients of a whole migration to the other cluster, and back: many topics at once, then one route."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import InterruptedMigrationError, MagnetarError, MigrationError
from magnetar.migration.machine.effects import EffectKind
from magnetar.migration.machine.partitions import partitions_of, route_scope
from magnetar.migration.machine.records import Found, Routed, StageMoved
from magnetar.migration.machine.tables import Stage, StageEvent
from magnetar.migration.switching.topic_move import Clock, Course, TopicMove

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from magnetar.migration.machine.effects import Effect
    from magnetar.migration.machine.migration import Migration
    from magnetar.migration.switching.cluster import Cluster

AT_ONCE_MAX = 16
"""Maximum number of topics that are between the clusters at the same time."""

AT_ONCE = 2
"""The default. More of them share the processors of both brokers, so that each is unavailable for longer."""

AT_ONCE_FROM_PULSAR = 1
"""The default if the source is Apache Pulsar, where a topic takes more requests, some one after the other."""


class World(Clock, Protocol):
    """Time, and the end that an operator asks for. Used by several threads."""

    def wait(self, seconds: float) -> bool:
        """Wait; return at once with True when the command shall end."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How many topics have arrived, without their partitions."""

    step: Stage
    done: int
    total: int
    released: int


class Driver(Protocol):
    """Takes the steps of several moves."""

    def __call__(self, moves: Sequence[TopicMove], moved: Callable[[TopicMove], None]) -> None:
        """Take all steps, and call ``moved`` at the end of each move."""
        ...


class Switch:
    """Runs the switch and the rollback of a migration, until the operator decides what is next."""

    def __init__(
        self,
        course: Course,
        migration: Migration,
        scopes: Sequence[str],
        drive: Driver,
        tell: Callable[[Progress], None] = lambda _: None,
        *,
        only: Collection[str] = (),
    ) -> None:
        """Move what ``scopes`` name: tenants, namespaces or topics, which get one route each.

        With ``only``, move these topics, without partitions, and leave the others for another time.
        """
        self._course = course
        self._migration = migration
        self._scopes = tuple(scopes)
        self._drive = drive
        self._tell = tell
        self._only = frozenset(only)
        self.released: dict[str, str] = {}
        """By topic: why its clients stay where they are."""

    def switch(self) -> None:
        """Send all clients to the target; some topics may be released. Raises MigrationStateError, and as ``_run``."""
        if self._migration.stage is Stage.SWITCHED:
            return
        if self._migration.stage is not Stage.SWITCH:
            self._course.source.topics()  # raises an error if there are some that cannot be moved
            self._course.recorder.append(StageMoved(StageEvent.SWITCH))
        self._run()

    def roll_back(self) -> None:
        """Send all clients to the source, as ``switch``."""
        if self._migration.stage is Stage.READY and self._migration.whole_route is not None:
            return
        if self._migration.stage is not Stage.ROLLBACK:
            self._course.recorder.append(StageMoved(StageEvent.ROLL_BACK))
        self._run()

    def _run(self) -> None:
        recorder = self._course.recorder
        while True:
            due, completion = recorder.due(), recorder.completion()
            if completion is not None:
                recorder.append(completion)
                return
            if not due:
                return
            match due[0].kind:
                case EffectKind.ROUTE_ALL:
                    self._route_all(due[0].names[0])
                case EffectKind.LIST:
                    self._list()
                case _:
                    if not self._move(due) or self.released:
                        return

    # --- topics ------------------------------------------------------------------------------------------------------

    def _move(self, due: Iterable[Effect]) -> bool:
        """Move the topics; return whether there were some to move."""
        known = self._migration.topics
        scopes = {route_scope(topic): partitions_of(topic, known) for effect in due for topic in effect.names}
        if self._only:
            scopes = {scope: topics for scope, topics in scopes.items() if scope in self._only}
        total = len({route_scope(topic) for topic in known})
        moves = [TopicMove(self._course, topics) for topics in scopes.values()]
        done = total - len(moves)

        def moved(move: TopicMove) -> None:
            nonlocal done
            if move.released:
                self.released[move.scope] = move.released
            else:
                done += 1
            self._tell(Progress(self._migration.stage, done, total, len(self.released)))

        self._drive(moves, moved)
        return bool(moves)

    def _list(self) -> None:
        """Find topics that were created while others were moved, and create them in the other cluster.

        The route of the cluster that clients leave leads away first, so that none can be created there after the look.
        """
        course, returns = self._course, self._migration.stage is Stage.ROLLBACK
        leaving, entered = (course.target, course.source) if returns else (course.source, course.target)
        self._set_routes(leaving, entered.name)
        new = tuple(topic for topic in leaving.topics() if topic not in self._migration.topics)
        for topic in new:
            entered.create_as_in(topic, leaving)
        course.recorder.append(Found(new))

    # --- routes ------------------------------------------------------------------------------------------------------

    def _route_all(self, cluster: str) -> None:
        """Let one route for each scope lead to a cluster, and delete more specific ones."""
        sides = (self._course.source, self._course.target)
        entered, leaving = sides if cluster == sides[0].name else reversed(sides)
        found = {side.name: self._more_specific(side.routes()) for side in sides}
        if self._migration.whole_route is None:
            self._require(entered, found)
        for side in (leaving, entered):
            self._set_routes(side, cluster)
        for side in (entered, leaving):
            for scope, before in found[side.name].items():
                if before in (entered.name, leaving.name):
                    side.delete_route(scope)
        self._course.recorder.append(Routed(cluster))

    def _set_routes(self, side: Cluster, cluster: str) -> None:
        for scope in self._scopes:
            side.set_route(scope, cluster)

    def _more_specific(self, routes: dict[str, str]) -> dict[str, str]:
        """Return the routes of namespaces and topics in the scopes, by scope."""
        return {scope: cluster for scope, cluster in routes.items() if self._includes(scope)}

    def _includes(self, scope: str) -> bool:
        return any(_is_in(scope, whole) for whole in self._scopes)

    @staticmethod
    def _require(source: Cluster, found: dict[str, dict[str, str]]) -> None:
        """Refuse a switch while clients of a part of the tenant are sent elsewhere."""
        for routes in found.values():
            for scope, cluster in routes.items():
                if cluster != source.name:
                    message = f"the route of {scope} leads to {cluster}, not to {source.name}\n"
                    message += f"hint: delete it with: magnetar routes delete {scope}"
                    raise MigrationError(message)


class Threads:
    """Takes the steps of moves with one thread for each, some at the same time."""

    def __init__(self, world: World, at_once: int = AT_ONCE) -> None:
        """Wait by means of ``world``."""
        self._world = world
        self._at_once = at_once
        self._failure: BaseException | None = None

    def __call__(self, moves: Sequence[TopicMove], moved: Callable[[TopicMove], None]) -> None:
        """See ``Driver``; after an error, and when the command shall end, all topics are released that can be."""
        with ThreadPoolExecutor(self._at_once) as pool:
            for move in pool.map(self._take, moves):
                if move is not None and self._failure is None:
                    moved(move)
        if self._failure is not None:
            raise self._failure

    def _take(self, move: TopicMove) -> TopicMove | None:
        """Take all steps of a move; None if it is not at its end."""
        try:
            while self._failure is None and not self._world.wait(0):
                wait = move.step()
                if wait is None:
                    return move
                if wait:
                    self._world.wait(wait)
            self._failure = self._failure or InterruptedMigrationError()
            move.withdraw()
        except MagnetarError as error:
            self._failure = self._failure or error
            self._withdraw(move)
        return None

    @staticmethod
    def _withdraw(move: TopicMove) -> None:
        try:
            move.withdraw()
        except MagnetarError:
            return  # the leases end by themselves


def _is_in(scope: str, whole: str) -> bool:
    """Return whether a scope is a part of a tenant or a namespace."""
    return scope.partition("://")[2].startswith(f"{whole}/") or scope.startswith(f"{whole}/")
