"""``magnetar migrate run``, ``status``, ``verify`` and ``abandon``: the steps before the switch."""

from __future__ import annotations

import os
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.base.errors import ConfigurationError, MigrationError
from magnetar.base.lock import DirectoryLock
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import OutputForm
from magnetar.cli.metadata_diff import admin_of
from magnetar.cli.migrate_names import From, Namespaces, Tenant, To, Topics, failure, options_of
from magnetar.cli.output import UNKNOWN, Output, say, say_json, show_fields, show_json
from magnetar.cli.spark_options import stop_of_signals
from magnetar.migration.machine.journal import Journal, read_journal
from magnetar.migration.machine.tables import BEFORE_SWITCH, Stage
from magnetar.migration.planning.gathering import plan
from magnetar.migration.pulsar.brokers import Brokers
from magnetar.migration.pulsar.carrier import ProgressCarrier
from magnetar.migration.pulsar.run_source import PulsarRunSource
from magnetar.migration.running.pair import Pair
from magnetar.migration.running.runner import Runner, Standing
from magnetar.migration.running.source import MagnetarSource
from magnetar.migration.scope import scope_named, scope_of
from magnetar.migration.sides import UnansweredError, source_of, target_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from magnetar.base.names import NamespaceName, TopicName
    from magnetar.migration.machine.migration import Migration
    from magnetar.migration.machine.records import Begun
    from magnetar.migration.running.source import Source
    from magnetar.migration.sides import Side

SAY_EVERY_S = 2.0
"""Seconds between two lines about the progress."""

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="Directory of the journal; default: magnetar/migrations/TENANT below XDG_STATE_HOME or ~/.local/state.",
        file_okay=False,
    ),
]


def run(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    topic: Topics = None,
    state: State = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """Bring the metadata, messages and progress of a tenant to another cluster, and keep them equal from then on.

    Clients stay where they are. The command ends when the target has everything; links and progress go on. It can be
    interrupted at any time: the same command continues. Run it again to find new topics and subscriptions. The
    source may be Apache Pulsar 4.0: its acknowledgements are brought as they are now, and again by the switch.
    With --namespace or --topic, only these move; the commands after this one need not repeat them.
    """
    with opened(tenant, source, target, namespace or (), state, topic or ()) as (pair, journal):
        runner = _runner(pair, journal, output)
        if journal.migration.begun is None:
            _require_possible(pair)
        elif journal.migration.stage not in (*BEFORE_SWITCH, Stage.ABANDON):
            raise _no_run_in(journal.migration.stage, tenant, state)
        runner.begin()
        runner.run()
        show_migration(journal.migration, journal.changed_at, output)
        if journal.migration.stage is Stage.READY and output is Output.TEXT:
            say("the target has everything; links and progress go on. Compare both clusters: magnetar migrate verify")


def abandon(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    state: State = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """End a migration: links end, and subscriptions get their former settings. Clients have never left the source.

    What the target has by then stays there. Delete it yourself if it is not needed.
    """
    with opened(tenant, source, target, namespace or (), state) as (pair, journal):
        require_begun(tenant, journal.migration)
        runner = _runner(pair, journal, output)
        runner.begin()
        runner.abandon()
        show_migration(journal.migration, journal.changed_at, output)


def status(tenant: Tenant, *, state: State = None, output: OutputForm = Output.TEXT) -> None:
    """Show how far a migration has come, from its journal. No cluster is asked."""
    migration, changed_at = read_journal(SystemFiles(), directory_of(tenant, state))
    require_begun(tenant, migration)
    show_migration(migration, changed_at, output)


def directory_of(tenant: str, state: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the journal of a tenant's migration; raises ConfigurationError if there is no home."""
    if state is not None:
        return state
    configured = Path(environment.get("XDG_STATE_HOME", ""))
    try:
        base = configured if configured.is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError as error:
        message = "the journal needs a directory, and this user has no home\nhint: name one with --state"
        raise ConfigurationError(message) from error
    return base / "magnetar" / "migrations" / tenant


@contextmanager
def opened(
    tenant: str,
    source: str,
    target: str,
    namespaces: Sequence[NamespaceName],
    state: Path | None,
    topics: Sequence[TopicName] = (),
) -> Iterator[tuple[Pair, Journal]]:
    """Open the clusters and the journal of a migration, for one process at a time.

    Without namespaces and topics, the scope is that of the migration that has begun, or the whole tenant.
    """
    scope, directory = scope_of(tenant, namespaces, topics), directory_of(tenant, state)
    with ExitStack() as stack:
        here = source_of(stack.enter_context(admin_of(source)), options_of(source))
        there = target_of(stack.enter_context(admin_of(target)), options_of(target))
        try:
            names, from_pulsar = list[str](), False
            for side in (here, there):
                with side.answers():
                    is_pulsar = not side.client.brokers.is_magnetar()
                    if is_pulsar and side is there:
                        raise _no_pulsar_in(side)
                    from_pulsar |= is_pulsar
                    names.append(side.client.brokers.runtime_configuration()["clusterName"])
            directory.mkdir(parents=True, exist_ok=True)
            stack.enter_context(DirectoryLock(directory))
            journal = Journal(SystemFiles(), directory, SystemClock())
            stack.callback(journal.close)
            begun = journal.migration.begun
            if begun is not None and not scope.parts:
                scope = scope_named(tenant, begun.scope)
            yield Pair(scope, here, there, names[0], names[1], from_pulsar), journal
        except UnansweredError as error:
            raise failure(error) from error


def require_begun(tenant: str, migration: Migration) -> Begun:
    """Return the beginning of a migration; raises FailedError if there is none."""
    if migration.begun is None:
        message, hint = f"there is no migration of {tenant}", "begin it with: magnetar migrate run; or name its --state"
        raise FailedError(Failure(ExitCode.FAILED, message, hint))
    return migration.begun


def _no_pulsar_in(target: Side) -> MigrationError:
    """Return the error of a migration to Apache Pulsar."""
    message = f"the target {target.client.url} is Apache Pulsar, where a tenant can return to, but not move to\n"
    return MigrationError(f"{message}hint: see the guide 'Move a tenant'")


def source_of_run(pair: Pair) -> Source:
    """Return the source of a run and of the clean-up."""
    return PulsarRunSource(pair, carrier_to(pair), SystemClock()) if pair.from_pulsar else MagnetarSource(pair)


def carrier_to(pair: Pair) -> ProgressCarrier:
    """Return what sends acknowledgements of Apache Pulsar to the target; raises MigrationError without an address."""
    url = _broker_url(pair, pair.target, pair.target_name)
    return ProgressCarrier(url, pair.target.client.credentials, pair.source_name, SystemClock())


def brokers_of(pair: Pair, side: Side) -> Brokers:
    """Return the brokers of one cluster; raises MigrationError without an address."""
    name = pair.source_name if side is pair.source else pair.target_name
    return Brokers(_broker_url(pair, side, name), side.client.credentials)


def _broker_url(pair: Pair, side: Side, name: str) -> str:
    """Return the address of a cluster's brokers, as the target's pipeline uses it."""
    field = "brokerServiceUrlTls" if side.client.url.startswith("https:") else "brokerServiceUrl"
    with pair.target.answers():
        url = pair.target.client.clusters.get(name).get(field)
    if not url:
        message = f"{name} has no {field} in {pair.target_name}\n"
        message += f"hint: set it with: magnetar clusters update {name}"
        raise MigrationError(message)
    return str(url)


def _no_run_in(stage: Stage, tenant: str, state: Path | None) -> MigrationError:
    """Return the error of a run in a stage in which there is nothing to run."""
    if stage in (Stage.ABANDONED, Stage.DONE):
        message = f"the migration of {tenant} is {stage.value}\n"
        return MigrationError(f"{message}hint: remove {directory_of(tenant, state)} to begin another one")
    commands = {Stage.ROLLBACK: "rollback", Stage.CLEANUP: "cleanup"}
    message = f"the migration of {tenant} is in the step '{stage.value}'\n"
    return MigrationError(f"{message}hint: continue it with: magnetar migrate {commands.get(stage, 'switch')}")


def _require_possible(pair: Pair) -> None:
    found = plan(pair.scope, pair.source, pair.target)
    if not found.is_possible:
        message = (
            f"there are blockers, and nothing was changed\nhint: magnetar migrate plan {pair.scope.tenant} shows them"
        )
        raise MigrationError(message)


def _runner(pair: Pair, journal: Journal, output: Output) -> Runner:
    return Runner(pair, source_of_run(pair), journal, RealWorld(stop_of_signals()), _Lines(output))


class RealWorld:
    """The clock of the machine, and the signals that end the command."""

    def __init__(self, stop: threading.Event) -> None:
        """End when ``stop`` is set."""
        self._stop = stop

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait; return at once with True when the command shall end."""
        return self._stop.wait(seconds)


class _Lines:
    """Prints the progress to stderr, a line every few seconds."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._said_at = time.monotonic()

    def __call__(self, standing: Standing) -> None:
        now = time.monotonic()
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        if self._output is Output.JSON:
            say_json(event="migration", **standing_json(standing))
        else:
            say(standing_text(standing))


def standing_json(standing: Standing) -> dict[str, Any]:
    """Return the progress of a step as JSON; an unknown number is null."""
    return {
        "step": standing.step.value,
        "topics": standing.topics,
        "topicsTotal": standing.topics_total,
        "left": standing.left,
        "perSecond": None if standing.per_second is None else round(standing.per_second, 1),
        "etaSeconds": None if standing.eta_s is None else round(standing.eta_s, 1),
        "waitsFor": standing.waits_for or None,
    }


def standing_text(standing: Standing) -> str:
    """Return the progress of a step in words."""
    words = [f"{standing.step.value}: {standing.topics:,} of {standing.topics_total:,} topics"]
    if standing.left != 0:
        words.append(f"{UNKNOWN if standing.left is None else f'{standing.left:,}'} left")
    if standing.per_second is not None and standing.left:
        words.append(f"{standing.per_second:,.0f}/s")
        words.append("time unknown" if standing.eta_s is None else f"about {standing.eta_s:,.0f} s")
    if standing.waits_for:
        words.append(standing.waits_for)
    return ", ".join(words)


def show_migration(migration: Migration, changed_at: float | None, output: Output) -> None:
    """Print the state of a migration, and the time of its newest record."""
    assert migration.begun is not None
    states = Counter(state.value for state in migration.topics.values())
    found = {
        "scope": migration.begun.scope,
        "from": migration.begun.source,
        "to": migration.begun.target,
        "step": migration.stage.value,
        "topics": len(migration.topics),
        "topicsByState": dict(sorted(states.items())),
        "differences": migration.differences,
        "released": dict(sorted(migration.released.items())),
        "changedAt": None if changed_at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(changed_at)),
    }
    if output is Output.JSON:
        show_json(found)
    else:
        verified = "not verified since the last change" if migration.differences is None else migration.differences
        show_fields(found | {"differences": verified})
