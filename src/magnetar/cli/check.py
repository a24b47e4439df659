"""``magnetar check``: whether everything in a data directory is as it was written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.base.lock import DirectoryLock
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.settings.data_directory import LEDGERS
from magnetar.cli.output import Output, say, show_fields, show_json
from magnetar.cli.progress import progress
from magnetar.ledger.segments.recovery import recover
from magnetar.offline.check import DirectoryReport
from magnetar.offline.check import check as check_directory
from magnetar.offline.check import repair as carry_out_repairs
from magnetar.offline.repair import deletion_of


def check(
    directory: Annotated[Path, typer.Argument(help="A broker's data directory (dataDirectory).")],
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Cut the torn tail that a crash left, and say what else could be repaired.")
    ] = False,
    give_up_data: Annotated[
        bool,
        typer.Option(
            "--give-up-data", help="With --repair: let damaged topics open without what cannot be read, as it says."
        ),
    ] = False,
    delete_unlisted: Annotated[
        bool,
        typer.Option(
            "--delete-unlisted",
            help="With --repair: delete ledgers that nothing lists, also those that a start keeps as possible data.",
        ),
    ] = False,
    output: Annotated[Output, typer.Option(help="The form of what is printed.")] = Output.TEXT,
) -> int:
    """Read every record, index, checksum, cursor and list of ledgers, and say what is wrong and what would be lost.

    The broker must not run. Without --repair nothing is changed. --repair cuts the torn tail of the newest segment,
    which holds nothing that was ever confirmed and which a starting broker would cut as well. For each damaged topic it
    says how the topic could be opened again and what would be given up; --give-up-data then does so, for all of them.
    Other damage is refused. --delete-unlisted deletes the orphaned ledgers, unless something is wrong: they may belong
    to it. Exits with 1 when something is wrong and stays so.
    """
    if (give_up_data or delete_unlisted) and not repair:
        message = "--give-up-data and --delete-unlisted only make sense with --repair"
        raise ConfigurationError(message)
    if not (directory / LEDGERS).is_dir():
        message = f"{directory} is not a broker's data directory: it has no {LEDGERS}/"
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
            _delete_unlisted(directory, report)
    if output is Output.JSON:
        show_json(_as_json(report))
    else:
        _tell(report)
    if record is not None:
        say(f"repaired {len(report.repairs)} times; {record} keeps what was replaced")
        return _tell_rest(after)
    if repair:
        return _tell_repair(report, delete_unlisted=delete_unlisted)
    if report.intact and report.log.torn_bytes:
        say("hint: a starting broker cuts the torn tail, as --repair does; nothing in it was ever confirmed")
    return int(not report.intact)


def _as_json(report: DirectoryReport) -> dict[str, Any]:
    found = {"intact": report.intact, **asdict(report)}
    found["repairs"] = [
        {"topic": each.topic, "action": each.action, "givesUp": each.gives_up} for each in report.repairs
    ]
    return found


def _cut_tail(directory: Path) -> None:
    _, writer = recover(SystemFiles(), directory / LEDGERS)
    if writer is not None:
        writer.close()


def _tell(report: DirectoryReport) -> None:
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
            say(f"lost: {loss.topic}: what {loss.subscription} acknowledged since it began")


def _tell_rest(report: DirectoryReport) -> int:
    for problem in report.problems:
        say(f"still wrong: {problem}")
    for each in report.repairs:
        say(f"still wrong: {each.topic}: {each.action}")
    return int(not report.intact)


def _delete_unlisted(directory: Path, report: DirectoryReport) -> None:
    """Have the next start delete the ledgers that nothing lists."""
    if report.orphans:
        deletion = deletion_of(report.orphans, report.orphans_bytes)
        record = carry_out_repairs(directory, [deletion], SystemClock().now())
        say(f"the next start deletes {deletion.gives_up}; {record} keeps this list")


def _tell_orphans(report: DirectoryReport) -> None:
    """Say what could be done about ledgers that nothing lists."""
    count, size = len(report.orphans), report.orphans_bytes
    say(f"{count} ledgers that nothing lists take {size} bytes; a start keeps those that may be data of a lost topic")
    if report.intact:
        say("hint: if they are not, add --delete-unlisted")
    else:
        say("they can be deleted once nothing else is wrong, since they may belong to what is wrong")


def _tell_repair(report: DirectoryReport, *, delete_unlisted: bool) -> int:
    if report.orphans and not (delete_unlisted and report.intact):
        _tell_orphans(report)
    if report.repairs:
        for each in report.repairs:
            say(f"could repair: {each.topic}: {each.action}; this gives up: {each.gives_up}")
        say("error: not repaired: what was confirmed would be given up")
        say("hint: restore the directory from a copy, or add --give-up-data to do all of this")
        return 1
    if not report.intact:
        say("error: not repaired: only a torn tail can be cut without losing what was confirmed, and more is wrong")
        say("hint: restore the directory from a copy, or start an empty broker and let replication fill it")
        if report.log.opens and report.log.damaged:
            say(
                "hint: damaged entries keep no broker from starting; consumers get the others, and a link that stops "
                "at one goes on after `magnetar topics skip-entries`"
            )
        return 1
    torn = report.log.torn_bytes
    say(f"cut {torn} torn bytes; nothing in them was ever confirmed" if torn else "nothing to repair")
    return 0
