"""``magnetar migrate switch`` and ``rollback``: send clients to the target, and back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.base.errors import ConfigurationError, MigrationError
from magnetar.cli.failures import ExitCode
from magnetar.cli.global_options import OutputForm
from magnetar.cli.migrate_names import From, Namespaces, Tenant, To, Topics
from magnetar.cli.migrate_run import SAY_EVERY_S, RealWorld, State, brokers_of, carrier_to, opened, require_begun
from magnetar.cli.output import Output, say, say_json, show_fields, show_json
from magnetar.cli.spark_options import stop_of_signals
from magnetar.migration.known import sum_if_known
from magnetar.migration.machine.partitions import route_scope
from magnetar.migration.machine.tables import Stage
from magnetar.migration.pulsar.returning import End, PulsarReturn
from magnetar.migration.pulsar.source import PulsarSource, Wires
from magnetar.migration.running.entries import entries_in
from magnetar.migration.switching.admin_cluster import AdminCluster
from magnetar.migration.switching.budget import Budget
from magnetar.migration.switching.figures import percentile
from magnetar.migration.switching.handover import ByDirection
from magnetar.migration.switching.naming import fence_name, route_scopes
from magnetar.migration.switching.recorder import Recorder
from magnetar.migration.switching.switch import AT_ONCE, AT_ONCE_FROM_PULSAR, AT_ONCE_MAX, Progress, Switch, Threads
from magnetar.migration.switching.topic_move import Course

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from magnetar.base.names import NamespaceName
    from magnetar.migration.machine.journal import Journal
    from magnetar.migration.machine.migration import Migration
    from magnetar.migration.running.pair import Pair

_DEFAULT = Budget()

TopicTimeout = Annotated[
    float,
    typer.Option(
        "--topic-timeout",
        min=0.1,
        help="Seconds that a topic may take. Then it is released, and its clients go on where they were.",
    ),
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--parallel",
        min=1,
        max=AT_ONCE_MAX,
        help="Topics that are switched at the same time. With more, each is unavailable for longer. "
        f"Default: {AT_ONCE}, or {AT_ONCE_FROM_PULSAR} if the source is Apache Pulsar.",
    ),
]
AckTimeout = Annotated[
    float,
    typer.Option(
        "--acknowledgement-timeout",
        min=0.0,
        help="Seconds in which consumers may acknowledge the messages that they hold. The rest is delivered again.",
    ),
]


def switch(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    topic: Topics = None,
    topic_timeout: TopicTimeout = _DEFAULT.total_s,
    acknowledgement_timeout: AckTimeout = _DEFAULT.acknowledgements_s,
    parallel: Parallel = None,
    state: State = None,
    output: OutputForm = Output.TEXT,
) -> int:
    """Send the clients of a tenant to the target, topic by topic, without loss or repetition.

    The migration must be verified. Each topic is fenced in the source, its last messages and acknowledgements are
    carried, and its route leads to the target, some topics at a time. The command can be interrupted, and
    continues where it was. With --topic, only some topics are switched. The exit code is 1 if a topic was released.
    """
    budget = _budget(topic_timeout, acknowledgement_timeout)
    only = frozenset(map(str, topic or ()))
    options = _Options(output, budget, parallel, only)
    with _prepared(tenant, source, target, namespace or (), state, options) as move:
        _require_known(only, move.migration)
        move.switch.switch()
        return move.show()


def rollback(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    topic_timeout: TopicTimeout = _DEFAULT.total_s,
    acknowledgement_timeout: AckTimeout = _DEFAULT.acknowledgements_s,
    parallel: Parallel = None,
    state: State = None,
    output: OutputForm = Output.TEXT,
) -> int:
    """Send the clients of a tenant back to the source, with everything that was published and acknowledged since.

    It is possible until the clean-up, also in the middle of a switch. Afterwards the migration is ready again.
    The exit code is 1 if a topic was released, whose clients stay in the target: run the command again.
    """
    budget = _budget(topic_timeout, acknowledgement_timeout)
    options = _Options(output, budget, parallel)
    with _prepared(tenant, source, target, namespace or (), state, options) as move:
        move.switch.roll_back()
        return move.show()


@dataclass(frozen=True, slots=True)
class _Options:
    """How a switch or a rollback runs."""

    output: Output
    budget: Budget
    at_once: int | None
    """None: the default for the source."""
    only: Collection[str] = ()
    """Topics without partitions; none: all."""


@dataclass(frozen=True, slots=True)
class _Move:
    """A switch or a rollback that is about to run."""

    pair: Pair
    journal: Journal
    course: Course
    switch: Switch
    output: Output

    @property
    def migration(self) -> Migration:
        return self.journal.migration

    def show(self) -> int:
        """Show the figures; return the exit code."""
        found = self._figures()
        if self.output is Output.JSON:
            show_json(found)
        else:
            times = found.pop("unavailable_ms")
            released = found.pop("released")
            show_fields(found | {f"unavailable_ms {name}": value for name, value in times.items()})
            for each in released:
                say(f"released: {each['topic']}: {each['reason']}")
            if released:
                say("run the same command again to try the released topics once more")
        return ExitCode.FAILED if self.switch.released else ExitCode.DONE

    def _figures(self) -> dict[str, Any]:
        migration, figures = self.migration, self.course.figures
        moved = figures.moved
        held = [migration.unacknowledged.get(topic) for topic in moved]
        entered = self.pair.source if migration.stage in (Stage.ROLLBACK, Stage.READY) else self.pair.target
        times = figures.unavailable_ms
        return {
            "step": migration.stage.value,
            "topics": len({*map(route_scope, moved)}),
            "entries": entries_in(self.pair, entered, moved),
            "redelivered_unacknowledged": sum_if_known(held),
            "unavailable_ms": {"p50": _rounded(percentile(times, 50)), "p99": _rounded(percentile(times, 99))}
            | {"measured": len(times), "unmeasured": figures.unmeasured},
            "released": [{"topic": name, "reason": reason} for name, reason in sorted(self.switch.released.items())],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


@contextmanager
def _prepared(
    tenant: str,
    source: str,
    target: str,
    namespaces: Sequence[NamespaceName],
    state: Path | None,
    options: _Options,
) -> Iterator[_Move]:
    with opened(tenant, source, target, namespaces, state) as (pair, journal):
        begun = require_begun(tenant, journal.migration)
        pair.require_same(begun)
        places = [place for place in journal.migration.places if "://" not in place]
        name, world = fence_name(begun), RealWorld(stop_of_signals())
        here, there = (
            AdminCluster(side, cluster, pair.scope, places, name)
            for side, cluster in ((pair.source, pair.source_name), (pair.target, pair.target_name))
        )
        course = Course(here, there, Recorder(journal), name, world, options.budget)
        if pair.from_pulsar:
            course = _with_pulsar(pair, course, here, there, world)
        lines = _Lines(options.output, world)
        moves = Switch(
            course,
            journal.migration,
            route_scopes(pair.scope),
            Threads(world, options.at_once or (AT_ONCE_FROM_PULSAR if pair.from_pulsar else AT_ONCE)),
            lines,
            only=options.only,
        )
        yield _Move(pair, journal, course, moves, options.output)


def _with_pulsar(pair: Pair, course: Course, here: AdminCluster, there: AdminCluster, world: RealWorld) -> Course:
    """Return a course whose source is Apache Pulsar."""
    brokers = brokers_of(pair, pair.source)
    wires = Wires(carrier_to(pair), brokers)
    source = PulsarSource(pair.source, here, pair.target, there, wires, world)
    ends = End(pair.source_name, pair.source), End(pair.target_name, pair.target)
    back = PulsarReturn(*ends, brokers, brokers_of(pair, pair.target))
    return replace(course, source=source, handover=ByDirection(source, back, pair.target_name))


def _budget(total_s: float, acknowledgements_s: float) -> Budget:
    if acknowledgements_s >= total_s:
        message = f"--acknowledgement-timeout {acknowledgements_s:g} is not below --topic-timeout {total_s:g}, so no "
        message += "time is left for the last messages"
        raise ConfigurationError(message)
    return Budget(total_s, acknowledgements_s)


def _require_known(wanted: Collection[str], migration: Migration) -> None:
    known = {route_scope(topic) for topic in migration.topics}
    for topic in sorted(wanted):
        if topic not in known:
            message = f"{topic} is no topic of the migration\nhint: magnetar migrate run looks for new topics"
            raise MigrationError(message)


class _Lines:
    """Prints the progress to stderr, a line every few seconds."""

    def __init__(self, output: Output, world: RealWorld) -> None:
        self._output = output
        self._world = world
        self._said_at = world.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = self._world.monotonic()
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        step, done, total, released = progress.step.value, progress.done, progress.total, progress.released
        if self._output is Output.JSON:
            say_json(event="migration", step=step, topics=done, topicsTotal=total, released=released)
        else:
            say(f"{step}: {done:,} of {total:,} topics" + (f", {released:,} released" if released else ""))
