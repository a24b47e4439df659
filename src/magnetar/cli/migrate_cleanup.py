"""``magnetar migrate cleanup``: deletes what the source still has of a moved tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.errors import MigrationError
from magnetar.cli.consent import Force, require_consent
from magnetar.cli.global_options import OutputForm
from magnetar.cli.metadata_diff import admin_of
from magnetar.cli.migrate_names import From, Namespaces, Tenant, To, options_of
from magnetar.cli.migrate_run import RealWorld, State, opened, require_begun, show_migration, source_of_run
from magnetar.cli.output import Output
from magnetar.cli.spark_options import stop_of_signals
from magnetar.cli.stranding import synchronized_with
from magnetar.migration.machine.tables import Stage
from magnetar.migration.running.cleanup import Cleanup
from magnetar.migration.sides import source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.migration.running.cleanup import Leftovers
    from magnetar.migration.running.pair import Pair


def cleanup(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    state: State = None,
    force: Force = False,
    output: OutputForm = Output.TEXT,
) -> None:
    """End a migration: delete the topics of the source, and the links between the clusters. There is no way back.

    The first step shows what would be deleted; --force deletes it. Subscriptions get their former settings. The route
    to the target stays, for clients that know an address of the source.
    """
    with (
        opened(tenant, source, target, namespace or (), state) as (pair, journal),
        admin_of(source) as local,
    ):
        migration = journal.migration
        pair.require_same(require_begun(tenant, migration))
        if migration.stage not in (Stage.SWITCHED, Stage.CLEANUP, Stage.DONE):
            message = f"the migration is in the step '{migration.stage.value}'\n"
            message += "hint: it can be cleaned up when it is switched: magnetar migrate switch"
            raise MigrationError(message)
        only_source = source_of(local, options_of(source))
        with only_source.answers():
            if not pair.from_pulsar and synchronized_with(local):
                local.keep_changes_local()
        run = Cleanup(pair, source_of_run(pair), only_source, journal, RealWorld(stop_of_signals()))
        if migration.stage is Stage.SWITCHED:
            found = run.leftovers()
            if found.waiting:
                message = f"{found.waiting}, and nothing was deleted\n"
                message += "hint: wait until links have no backlog and clients are gone"
                raise MigrationError(message)
            if not force:
                require_consent(f"delete {tenant} in {pair.source_name}", list(_effects(pair, found)))
        run.run()
        show_migration(migration, journal.changed_at, output)


def _effects(pair: Pair, found: Leftovers) -> Iterator[str]:
    yield f"{found.topics:,} topics and partitions are deleted there, with {found.storage_bytes:,} bytes"
    yield f"the links between {pair.source_name} and {pair.target_name} end for {', '.join(found.places)}"
    if not pair.scope.parts:
        yield f"the tenant no longer allows {pair.source_name}"
    yield "a rollback is not possible any more"
