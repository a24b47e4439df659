"""``magnetar pipeline audit``: compare the messages and acknowledgements of clusters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from magnetar.base.errors import ClusterUnreachableError, ConfigurationError, MagnetarError
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, say, show_json, show_table
from magnetar.cli.progress import progress
from magnetar.cli.session import names
from magnetar.cli.spark_options import (
    ClientConf,
    Clusters,
    Package,
    SparkConf,
    SparkLog,
    SparkMaster,
    WorkDirectory,
    addresses_of,
    spark_settings,
    stop_of_signals,
)
from magnetar.ops.spark import require_spark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from magnetar.jobs.audit.report import Report
    from magnetar.pipeline.driver.settings import SparkSettings
    from magnetar.pipeline.options import ClusterAddress

FindingsDirectory = Annotated[
    Path | None, typer.Option("--findings", help="New directory for all findings, as Parquet.")
]
SettleSeconds = Annotated[
    float, typer.Option(min=0, help="Seconds in which an acknowledgement arrives in all clusters.")
]

_SHOWN_MAX = 100
"""Findings of the table."""


def audit(
    *,
    clusters: Clusters,
    topics: Annotated[str, typer.Option(help="Topics, separated by commas.")] = "",
    namespaces: Annotated[
        str,
        typer.Option(
            help="Namespaces whose topics are compared, separated by commas; default: all that are replicated between "
            "two of the clusters."
        ),
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            help="Directory with which an interrupted audit continues, and a later one reads new entries only."
        ),
    ] = None,
    findings: FindingsDirectory = None,
    settle_seconds: SettleSeconds = 10.0,
    master: SparkMaster = None,
    work_dir: WorkDirectory = None,
    spark_log: SparkLog = None,
    conf: SparkConf = None,
    package: Package = None,
    client_conf: ClientConf = None,
    output: OutputForm = Output.TEXT,
) -> int:
    """Compare the entries and the acknowledgement state of topics in two or more clusters.

    Every lost, repeated, reordered or altered entry is named, and every disagreement about acknowledgements. Entries
    that are on their way to a cluster are not lost. The exit code is 1 if there is a finding, and 4 if the comparison
    could not be completed.
    """
    report = compared(
        addresses_of(clusters, client_conf),
        topics=names(topics),
        namespaces=names(namespaces),
        state=state,
        findings=findings,
        settle_seconds=settle_seconds,
        spark=spark_settings(master, work_dir, spark_log, conf, package),
    )
    show_report(report, output)
    return int(not report.is_clean)


def compared(
    clusters: Sequence[ClusterAddress],
    *,
    topics: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    state: Path | None,
    findings: Path | None,
    settle_seconds: float,
    spark: SparkSettings,
) -> Report:
    """Compare clusters, with progress on stderr; raises FailedError, with a hint, if it could not be completed."""
    require_spark(os.environ)
    from magnetar.jobs.audit.driver import audit as compare  # noqa: PLC0415 - Spark is heavy, and needs Java
    from magnetar.jobs.audit.outcome import STEPS  # noqa: PLC0415
    from magnetar.jobs.audit.settings import Settings  # noqa: PLC0415

    settings = Settings(
        clusters=tuple(clusters),
        topics=tuple(topics),
        namespaces=tuple(namespaces),
        state=state,
        findings=findings,
        settle_seconds=settle_seconds,
        spark=spark,
    )
    stop = stop_of_signals()
    try:
        with progress("audit", STEPS) as tell:
            return compare(settings, tell, stop)
    except (ClusterUnreachableError, ConfigurationError):
        raise
    except MagnetarError as error:
        hint = f"run the same command again to continue from {state}" if state is not None and stop.is_set() else ""
        raise FailedError(Failure.of_text(str(error), ExitCode.UNDECIDED, hint)) from error


def show_report(report: Report, output: Output) -> None:
    """Print the report of a comparison."""
    if output is Output.JSON:
        show_json(report.to_json())
        return
    show_table(
        {
            "topic": each.topic,
            "cluster": each.cluster,
            "compared": f"{each.compared:,}",
            "in flight": f"{each.in_flight:,}",
            "not comparable": f"{each.not_comparable:,}",
            "findings": f"{each.findings:,}",
        }
        for each in report.counts
    )
    found = report.to_json()["findings"]
    show_table(_row(each) for each in found[:_SHOWN_MAX])
    total = sum(report.by_kind.values())
    if total > _SHOWN_MAX:
        say(f"{total - _SHOWN_MAX:,} further findings\nhint: --findings DIRECTORY writes all of them as Parquet")
    for each in report.subscriptions_not_compared:
        say(f"subscription {each.subscription} of {each.topic} was not compared: {each.reason}")
    counts = ", ".join(f"{count:,} {kind}" for kind, count in report.by_kind.items())
    compared = f"{report.subscriptions_compared:,} subscriptions were compared"
    say(f"the clusters differ: {counts}; {compared}" if total else f"no difference was found; {compared}")


def _row(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "finding": finding["kind"],
        "topic": finding["topic"],
        "subscription": finding.get("subscription", ""),
        "cluster": finding["cluster"],
        "entry": f"{finding['origin']} {finding['originPosition']}" if "originPosition" in finding else "",
        "entries": finding.get("entries", ""),
        "at": finding.get("position", ""),
        "other": finding.get("other", ""),
    }
