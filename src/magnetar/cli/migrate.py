"""``magnetar migrate``: moves a tenant from one cluster to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.cli.failures import ExitCode
from magnetar.cli.global_options import OutputForm, noun
from magnetar.cli.metadata_diff import admin_of
from magnetar.cli.migrate_cleanup import cleanup
from magnetar.cli.migrate_names import From, Namespaces, Tenant, To, Topics, failure, options_of
from magnetar.cli.migrate_run import abandon, run, status
from magnetar.cli.migrate_switch import rollback, switch
from magnetar.cli.migrate_verify import verify
from magnetar.cli.output import Output, say, show_json, show_table
from magnetar.cli.progress import progress
from magnetar.migration.planning.findings import Severity
from magnetar.migration.planning.gathering import STEPS
from magnetar.migration.planning.gathering import plan as make_plan
from magnetar.migration.scope import scope_of
from magnetar.migration.sides import UnansweredError, source_of, target_of

if TYPE_CHECKING:
    from magnetar.migration.planning.findings import Group
    from magnetar.migration.planning.report import Report

_NAMED_MAX = 3
"""Resources that the table names in one row."""

app = noun("Move a tenant, or a part of it, from one cluster to another.")
app.command("run")(run)
app.command("status")(status)
app.command("verify")(verify)
app.command("abandon")(abandon)
app.command("switch")(switch)
app.command("rollback")(rollback)
app.command("cleanup")(cleanup)


@app.command("plan")
def plan(
    tenant: Tenant,
    *,
    source: From,
    target: To,
    namespace: Namespaces = None,
    topic: Topics = None,
    output: OutputForm = Output.TEXT,
) -> int:
    """Report what could prevent a move, from the admin APIs of both clusters. Nothing is changed.

    Blockers must be removed before the move. Warnings name what will be different, or could not be checked. The source
    may be Apache Pulsar. The exit code is 1 if there is a blocker.
    """
    scope = scope_of(tenant, namespace or (), topic or ())
    with admin_of(source) as here, admin_of(target) as there, progress("migration_plan", STEPS) as tell:
        try:
            found = make_plan(scope, source_of(here, options_of(source)), target_of(there, options_of(target)), tell)
        except UnansweredError as error:
            raise failure(error) from error
    _show(found, output)
    return ExitCode.DONE if found.is_possible else ExitCode.FAILED


def _show(found: Report, output: Output) -> None:
    if output is Output.JSON:
        show_json(found.to_json())
        return
    show_table(_row(each) for each in found.findings.groups())
    contents = (
        f"{found.namespaces:,} namespaces",
        f"{found.topics:,} topics and partitions",
        f"{found.subscriptions:,} subscriptions",
        f"{found.storage_bytes:,} bytes",
        f"{found.changes:,} changes of metadata",
    )
    say(f"{found.scope}, from {found.source} to {found.target}: {', '.join(contents)}")
    counts = ", ".join(f"{found.findings.count(each):,} {each.value}s" for each in Severity)
    say(counts + ("" if found.is_possible else "; remove the blockers first"))


def _row(group: Group) -> dict[str, str]:
    shown = list(group.resources.items())[:_NAMED_MAX]
    names = ", ".join(f"{name} ({detail})" if detail else name for name, detail in shown)
    more = group.count - len(shown)
    return {
        "severity": group.severity.value,
        "about": group.area.value,
        "resource": names + (f" and {more:,} more" if more else ""),
        "finding": group.problem,
        "fix": group.fix,
    }
