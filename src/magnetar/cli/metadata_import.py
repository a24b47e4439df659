"""``magnetar metadata import``: the metadata of Apache Pulsar into Magnetar."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import typer

from magnetar.admin.client import AdminClient
from magnetar.admin.cluster_metadata.document import Selection
from magnetar.admin.cluster_metadata.others import read_others
from magnetar.admin.cluster_metadata.reading import READ, read_metadata
from magnetar.admin.metadata_import.apply import Refusal, apply
from magnetar.admin.metadata_import.changes import Change, Plan, Reason
from magnetar.admin.metadata_import.cluster_names import ClusterNames
from magnetar.admin.metadata_import.plan import plan_import
from magnetar.base.errors import AdminError, ClusterUnreachableError, ConfigurationError
from magnetar.cli import units
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.hints import failure_elsewhere
from magnetar.cli.metadata_diff import Only, admin_of, selection_of
from magnetar.cli.output import show_json, show_table
from magnetar.cli.progress import progress
from magnetar.cli.session import Session, names

From = Annotated[
    str, typer.Option("--from", metavar="URL|PROFILE", help="Admin URL, or profile, of Apache Pulsar; it is only read.")
]
Rename = Annotated[
    str,
    typer.Option(
        "--rename",
        help="Names in this cluster for those of clusters in the source, as old=new separated by commas. A repeated "
        "name gets all of its new names; old= gets none.",
    ),
]
RegisterClusters = Annotated[
    bool, typer.Option("--register-clusters", help="Register unknown clusters with the addresses in Apache Pulsar.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, field by field; change nothing.")]
Watch = Annotated[bool, typer.Option("--watch", help="Go on until interrupted, and import each later change.")]
Interval = Annotated[
    int, typer.Option(parser=units.seconds, metavar="TIME", help="Time between two comparisons with --watch.")
]

INTERVAL = "60s"
"""Default time between two comparisons."""

_wait = time.sleep


@dataclass(frozen=True, slots=True)
class Options:
    """What an import does."""

    selection: Selection
    clusters: Mapping[str, list[str]]
    registers: bool
    is_dry_run: bool


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one comparison."""

    plan: Plan
    refused: list[Refusal]

    @property
    def conflicts(self) -> int:
        """Number of differences that nothing can resolve."""
        return sum(remark.reason is Reason.CONFLICT for remark in self.plan.remarks)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "changes": [_shown(change) for change in self.plan.changes if change not in self._refused],
            "refused": [_shown(each.change) | {"reason": str(each.error)} for each in self.refused],
            "notImported": [
                {
                    "reason": each.reason.value,
                    "resourceType": each.kind,
                    "resource": each.name,
                    "field": each.field.removeprefix("/") or None,
                    "detail": each.detail,
                }
                for each in self.plan.remarks
            ],
        }

    @property
    def _refused(self) -> list[Change]:
        return [each.change for each in self.refused]


def import_metadata(
    session: Session,
    *,
    source: From,
    only: Only = "",
    rename: Rename = "",
    register_clusters: RegisterClusters = False,
    dry_run: DryRun = False,
    watch: Watch = False,
    interval: Interval = INTERVAL,  # type: ignore[assignment] # typer parses it
) -> None:
    """Import tenants, namespaces, policies, partitions, schemas and permissions of Apache Pulsar.

    What is equal is not written, so an interrupted import is continued by the same command. Resources that only this
    cluster has are kept. Fails if this cluster refused something, or if something cannot be resolved.
    """
    options = Options(selection_of(only), _renames(rename), register_clusters, dry_run)
    with admin_of(source) as client:
        if watch:
            _watch(session, client, options, interval)
        result = _import(session, client, options)
    _show(session, result, dry_run=dry_run)
    if result.refused or result.conflicts:
        message = f"{len(result.refused)} changes were refused, {result.conflicts} differences cannot be resolved"
        raise FailedError(Failure(ExitCode.FAILED, message, "the other changes were made"))


def _import(session: Session, client: AdminClient, options: Options) -> Round:
    """Compare the clusters once, and make the changes."""
    with progress("metadata_read", READ) as report:
        try:
            source = read_metadata(client, options.selection, report)
            source.others.extend(read_others(client, source))
        except (AdminError, ClusterUnreachableError) as error:
            hint = "--from names the admin URL of Apache Pulsar"
            raise failure_elsewhere(error, client.url, "the source", hint) from error
        target = read_metadata(session.client, options.selection)
    known = ClusterNames(source, target, options.clusters, registers=options.registers)
    known.require_known(source)
    plan = plan_import(source, target, known)
    if options.is_dry_run:
        return Round(plan, [])
    with progress("metadata_imported", ("changes",)) as report:
        return Round(plan, apply(session.client, plan.changes, lambda done, total: report("changes", done, total)))


def _watch(session: Session, client: AdminClient, options: Options, interval_s: int) -> NoReturn:
    """Import again and again; a failure after the first time is reported, and tried again."""
    shown: dict[str, Any] | None = None
    while True:
        try:
            result = _import(session, client, options)
        except (AdminError, ClusterUnreachableError, ConfigurationError, FailedError) as error:
            if shown is None:
                raise
            session.note(f"the import failed, and is tried again in {interval_s} s: {error}")
        else:
            found = result.to_json()
            if _has_news(found, shown, is_dry_run=options.is_dry_run):
                _show(session, result, dry_run=options.is_dry_run, in_one_line=True)
            shown = found
        _wait(interval_s)


def _has_news(found: dict[str, Any], shown: dict[str, Any] | None, *, is_dry_run: bool) -> bool:
    if shown is None or is_dry_run:
        return found != shown
    return bool(found["changes"]) or found != {**shown, "changes": []}


def _show(session: Session, result: Round, *, dry_run: bool, in_one_line: bool = False) -> None:
    found = result.to_json()
    if session.is_json:
        found = {"dryRun": dry_run} | found
        if in_one_line:
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
        else:
            show_json(found)
        return
    for rows in found.values():
        show_table(rows)
    without_effect = sum(not change["hasEffect"] for change in found["changes"])
    made, refused, others = (len(found[each]) for each in ("changes", "refused", "notImported"))
    session.note(
        f"{made} changes{' would be' if dry_run else ''} made, {refused} refused, {others} differences not imported; "
        f"{without_effect} of the values are stored without effect"
    )


def _shown(change: Change) -> dict[str, Any]:
    return {
        "resourceType": change.kind,
        "resource": change.name,
        "field": change.field.removeprefix("/") or None,
        "before": change.before,
        "after": change.after,
        "hasEffect": change.has_effect,
    }


def _renames(rename: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in names(rename):
        old, separator, new = each.partition("=")
        if not (old and separator):
            message = f"--rename {each}: expected old=new"
            raise ConfigurationError(message)
        found.setdefault(old, []).extend(filter(None, [new]))
    return found
