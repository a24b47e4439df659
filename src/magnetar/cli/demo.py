"""``magnetar demo``: planned and unplanned failover on real data."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from magnetar.cli.failures import ExitCode, Failure
from magnetar.cli.output import Output, note, show_json, show_table

app = typer.Typer()


@app.command()
def demo(
    flights: Annotated[int, typer.Option(help="Number of flights, at most 336776.")] = 336_776,
    directory: Annotated[Path, typer.Option(help="Directory of the report and all data; emptied first.")] = Path(
        "build/demo"
    ),
    base_port: Annotated[int, typer.Option(help="First port of the clusters.")] = 16650,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the clusters running afterwards.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format of the report.")] = Output.TEXT,
) -> int:
    """Move consumers between three clusters, as planned and after kill -9, and count lost and repeated messages.

    The exit code is 1 if a message was lost, or if more messages were repeated than the bound allows.
    """
    from magnetar.demo.run import Options, run  # noqa: PLC0415 - needs the official client, no other command does

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that everything is stopped
    report, kept = run(Options(directory, flights, base_port, keep))
    if output is Output.JSON:
        show_json(report.to_json())
    else:
        show_table(report.rows())
    note(output, f"The report is in {directory / 'report.json'}.")
    if kept is not None:
        note(output, f"The clusters keep running; stop them with: kill {kept}")
    for failure in report.failures:
        Failure(ExitCode.FAILED, failure).show(output)
    return 1 if report.failures else 0
