"""``magnetar demo``: planned and unplanned failover on real data, and the migration of a tenant."""

from __future__ import annotations

import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from magnetar.cli.failures import ExitCode, Failure
from magnetar.cli.output import Output, note, show_json, show_table
from magnetar.cli.spark_options import Package, SparkMaster, spark_arguments

app = typer.Typer()

_FLIGHTS = 336_776
_TOPICS, _RATE = 10, 200.0


class Story(StrEnum):
    """What the demo shows."""

    FAILOVER = "failover"
    MIGRATE = "migrate"


@app.command()
def demo(
    story: Annotated[
        Story, typer.Argument(help="failover: consumers between three clusters. migrate: a tenant between two.")
    ] = Story.FAILOVER,
    *,
    flights: Annotated[
        int | None, typer.Option(help=f"failover: number of flights, at most and by default {_FLIGHTS}.")
    ] = None,
    topics: Annotated[
        int | None, typer.Option(min=1, max=100, help=f"migrate: number of topics, by default {_TOPICS}.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=1, max=10_000, help=f"migrate: messages per second, by default {_RATE:g}.")
    ] = None,
    directory: Annotated[Path, typer.Option(help="Directory of the report and all data; emptied first.")] = Path(
        "build/demo"
    ),
    base_port: Annotated[int, typer.Option(help="First port of the clusters.")] = 16650,
    keep: Annotated[bool, typer.Option("--keep", help="failover: keep the clusters running afterwards.")] = False,
    secure: Annotated[
        bool, typer.Option("--secure", help="failover: with TLS, tokens and permissions; see magnetar up.")
    ] = False,
    master: SparkMaster = None,
    package: Package = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format of the report.")] = Output.TEXT,
) -> int:
    """Move consumers, or a whole tenant, between clusters, and count lost and repeated messages.

    failover: consumers of three clusters move as planned, and after kill -9. migrate: a tenant moves to another cluster
    and back while stock clients publish and consume through the lookup service; an audit compares both clusters.
    The exit code is 1 if a message was lost, or if more messages were repeated than the bound allows.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that everything is stopped
    if story is Story.MIGRATE:
        of_failover = {"--flights": flights, "--keep": keep or None, "--secure": secure or None}
        _refuse(of_failover | {"--master": master, "--package": package}, story)
        return _migrate(directory, topics or _TOPICS, rate or _RATE, base_port, output)
    _refuse({"--topics": topics, "--rate": rate}, story)
    of_up = ["--secure"] * secure + spark_arguments(master, package)
    return _fail_over(directory, _FLIGHTS if flights is None else flights, base_port, output, of_up, keep=keep)


def _refuse(given: dict[str, object], story: Story) -> None:
    for option, value in given.items():
        if value is not None:
            message = f"{option} has no effect on the story '{story.value}'"
            raise typer.BadParameter(message)


def _fail_over(directory: Path, flights: int, base_port: int, output: Output, of_up: list[str], *, keep: bool) -> int:
    from magnetar.demo.run import Options, run  # noqa: PLC0415 - needs the official client, no other command does

    report, kept = run(Options(directory, flights, base_port, keep, of_up))
    _show(report.to_json(), report.rows(), directory / "report.json", output)
    if kept is not None:
        note(output, f"The clusters keep running; stop them with: kill {kept}")
    return _failed(report.failures, output)


def _migrate(directory: Path, topics: int, rate: float, base_port: int, output: Output) -> int:
    from magnetar.demo.moving.run import Options, run  # noqa: PLC0415 - as above

    report = run(Options(directory, topics, rate, base_port), lambda step: note(output, step))
    _show(report.to_json(), report.rows(), directory / "migration.json", output)
    return _failed(report.failures, output)


def _show(found: dict[str, object], rows: list[dict[str, str]], file: Path, output: Output) -> None:
    if output is Output.JSON:
        show_json(found)
    else:
        show_table(rows)
    note(output, f"The report is in {file}.")


def _failed(failures: list[str], output: Output) -> int:
    for failure in failures:
        Failure(ExitCode.FAILED, failure).show(output)
    return 1 if failures else 0
