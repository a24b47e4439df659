"""``magnetar check``: verify and repair the data directory of a stopped broker."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.base.lock import DirectoryLock
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.settings.data_directory import LEDGERS
from magnetar.cli.failures import ExitCode, Failure
from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, note, say, show_fields, show_json
from magnetar.cli.progress import progress
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.shared_log.log import Log
from magnetar.offline.check import DirectoryReport
from magnetar.offline.check import check as check_directory
from magnetar.offline.check import repair as carry_out_repairs
from magnetar.offline.repair import deletion_of

app = typer.Typer()


@app.command()
def check(
    directory: Annotated[Path, typer.Argument(help="A broker's data directory (dataDirectory).")],
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Cut the torn tail that a crash left, and list further repairs.")
    ] = False,
    give_up_data: Annotated[
        bool,
        typer.Option(
            "--give-up-data", help="With --repair: make damaged topics loadable by giving up the data that is listed."
        ),
    ] = False,
    delete_unlisted: Annotated[
        bool,
        typer.Option(
            "--delete-unlisted",
            help="With --repair: delete all ledgers that no topic lists, including possible data of a lost topic.",
        ),
    ] = False,
    output: OutputForm = Output.TEXT,
) -> int:
    """Verify every record, index, checksum, cursor and list of ledgers, and report damage and lost data.

    The broker must be stopped. Without --repair nothing is changed. --repair cuts the torn tail of the newest segment.
    A torn tail holds no confirmed data, and a starting broker cuts it, too. For each damaged topic, --repair lists the
    repair that makes the topic loadable and the data that this repair gives up; --give-up-data carries out all of
    these repairs. Other damage is not repaired. --delete-unlisted deletes the orphaned ledgers. It is refused while
    there is damage, since the ledgers may belong to a damaged topic. The exit code is 1 if damage remains.
    """
    if (give_up_data or delete_unlisted) and not repair:
        message = "--give-up-data and --delete-unlisted require --repair\nhint: add --repair"
        raise ConfigurationError(message)
    if not (directory / LEDGERS).is_dir():
        message = (
            f"{directory} is not a data directory of a broker: it has no {LEDGERS}/\n"
            "hint: name the directory that the setting dataDirectory names"
        )
        raise ConfigurationError(message)
    with DirectoryLock(directory), progress("checking", ("segments", "topics")) as told:
        report = check_directory(directory, told)
        if repair and report.intact:
            _cut_tail(directory)
        record = None
        if give_up_data and report.repairs:
            record = carry_out_repairs(directory, report.repairs, SystemClock().now())
            after = check_directory(directory, told)
        elif delete_unlisted and report.intact:
            _delete_unlisted(directory, report, output)
    if output is Output.JSON:
        show_json(_as_json(report))
    else:
        _report(report)
    if record is not None:
        note(output, f"carried out {len(report.repairs)} repairs; {record} holds the replaced metadata")
        return _report_rest(after, output)
    if repair:
        return _report_repair(report, output, delete_unlisted=delete_unlisted)
    if report.intact and report.log.torn_bytes:
        hint = "a starting broker cuts it, as --repair does; it holds no confirmed data"
        note(output, "the newest segment has a torn tail", hint)
    return int(not report.intact)


def _as_json(report: DirectoryReport) -> dict[str, Any]:
    found = {"intact": report.intact, **asdict(report)}
    found["repairs"] = [
        {"topic": each.topic, "action": each.action, "givesUp": each.gives_up} for each in report.repairs
    ]
    return found


def _cut_tail(directory: Path) -> None:
    log = Log(LocalMedium(directory / LEDGERS, SystemFiles()), 0, sync=True)
    run_blocking(log.open)
    run_blocking(log.abandon)


def _report(report: DirectoryReport) -> None:
    log = report.log
    show_fields(
        {
            "intact": report.intact,
            "segments": log.segments,
            "ledgers": log.ledgers,
            "runs": log.runs,
            "entries": log.entries,
            "bytes of entries": log.entries_bytes,
            "torn bytes": log.torn_bytes,
            "topics": report.topics,
            "cursors": report.cursors,
            "orphaned ledgers": len(report.orphans),
            "orphaned bytes": report.orphans_bytes,
        }
    )
    for problem in report.problems:
        say(f"wrong: {problem}")
    for loss in report.losses:
        if loss.subscription is None:
            say(f"lost: {loss.topic}: {loss.entries} entries, {loss.first} to {loss.last}")
        else:
            say(f"lost: {loss.topic}: all acknowledgements of {loss.subscription}")


def _report_rest(report: DirectoryReport, output: Output) -> int:
    for problem in report.problems:
        note(output, f"still wrong: {problem}")
    for each in report.repairs:
        note(output, f"still wrong: {each.topic}: {each.action}")
    return int(not report.intact)


def _delete_unlisted(directory: Path, report: DirectoryReport, output: Output) -> None:
    """Make the next start delete the ledgers that no topic lists."""
    if report.orphans:
        deletion = deletion_of(report.orphans, report.orphans_bytes)
        record = carry_out_repairs(directory, [deletion], SystemClock().now())
        note(output, f"the next start deletes {deletion.gives_up}; {record} holds this list")


def _report_orphans(report: DirectoryReport, output: Output) -> None:
    """Report the ledgers that no topic lists, and how to delete them."""
    count, size = len(report.orphans), report.orphans_bytes
    text = f"{count} ledgers that no topic lists take {size} bytes; a start keeps those that may belong to a lost topic"
    if report.intact:
        note(output, text, "if no topic is missing, delete them with --delete-unlisted")
    else:
        note(output, text, "repair the other damage first; the ledgers may belong to a damaged topic")


def _report_repair(report: DirectoryReport, output: Output, *, delete_unlisted: bool) -> int:
    if report.orphans and not (delete_unlisted and report.intact):
        _report_orphans(report, output)
    if report.repairs:
        for each in report.repairs:
            note(output, f"possible repair: {each.topic}: {each.action}; this gives up: {each.gives_up}")
        text = "not repaired: the repairs give up confirmed data"
        hint = "restore the directory from a copy, or add --give-up-data to carry out all repairs"
        return Failure(ExitCode.FAILED, text, hint).show(output)
    if not report.intact:
        text = "not repaired: there is damage outside the torn tail, and no repair for it"
        hint = "restore the directory from a copy, or start an empty broker and let replication fill it"
        if report.log.opens and report.log.damaged:
            hint += (
                "; a broker starts with damaged entries and serves the others: a link that stops at a damaged entry "
                "continues after `magnetar topics skip-entries`"
            )
        return Failure(ExitCode.FAILED, text, hint).show(output)
    torn = report.log.torn_bytes
    note(output, f"cut {torn} torn bytes, which held no confirmed data" if torn else "nothing to repair")
    return 0
