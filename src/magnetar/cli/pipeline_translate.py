"""``magnetar pipeline translate``: the acknowledgement state of subscriptions in the positions of another cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, say, show_json, show_table
from magnetar.cli.progress import progress
from magnetar.cli.session import names
from magnetar.cli.spark_options import (
    ClientConf,
    Package,
    SparkConf,
    SparkLog,
    SparkMaster,
    WorkDirectory,
    addresses_of,
    continued,
    spark_settings,
    stop_of_signals,
)
from magnetar.ops.spark import require_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.jobs.translate.outcome import Translation
    from magnetar.jobs.translate.report import Report

_SHOWN_MAX = 20
"""Ambiguous entries of the table."""


def translate(
    *,
    source: Annotated[
        str, typer.Option("--from", help="Cluster of the subscriptions, as name=admin URL or as a profile.")
    ],
    target: Annotated[
        str, typer.Option("--to", help="Cluster with copies of the messages, as name=admin URL or as a profile.")
    ],
    topics: Annotated[str, typer.Option(help="Topics, separated by commas.")] = "",
    namespaces: Annotated[
        str,
        typer.Option(
            help="Namespaces whose topics are translated, separated by commas; default: all that are replicated "
            "between the two clusters."
        ),
    ] = "",
    subscriptions: Annotated[
        str, typer.Option(help="Subscriptions, separated by commas; default: all durable ones.")
    ] = "",
    mapping: Annotated[
        Path | None, typer.Option(help="New directory for the positions of all entries in both clusters, as Parquet.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Directory with which an interrupted translation continues, and a later one reads new entries only."
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Set the states in the target.")] = False,
    master: SparkMaster = None,
    work_dir: WorkDirectory = None,
    spark_log: SparkLog = None,
    conf: SparkConf = None,
    package: Package = None,
    client_conf: ClientConf = None,
    output: OutputForm = Output.TEXT,
) -> int:
    """Translate acknowledgement states into positions of another cluster whose entries have no origin positions.

    Entries correspond if their producer's name, sequence id, publish time and content are equal. Entries without such
    a counterpart, or with several, are counted and named. A message is acknowledged only if it is acknowledged in all
    equal entries of the source. The exit code is 1 if a state was not set with --apply.
    """
    require_spark(os.environ)
    from magnetar.jobs.translate.driver import STEPS  # noqa: PLC0415 - Spark is heavy, and needs Java
    from magnetar.jobs.translate.driver import translate as run  # noqa: PLC0415
    from magnetar.jobs.translate.settings import Settings  # noqa: PLC0415

    clusters = addresses_of(f"{source},{target}", client_conf, "--from and --to")
    settings = Settings(
        source=clusters[0],
        target=clusters[-1],
        topics=tuple(names(topics)),
        namespaces=tuple(names(namespaces)),
        subscriptions=tuple(names(subscriptions)),
        mapping=mapping,
        state=state,
        applies=apply,
        spark=spark_settings(master, work_dir, spark_log, conf, package),
    )
    with progress("translate", STEPS) as tell, continued():
        report = run(settings, tell, stop_of_signals())
    if output is Output.JSON:
        show_json(report.to_json())
    else:
        _show(report)
    return int(report.is_refused)


def _show(report: Report) -> None:
    from magnetar.jobs.translate.tables import Match  # noqa: PLC0415 - needs Arrow

    show_table(
        {"topic": topic, **{match.value: f"{by_match.get(match, 0):,}" for match in Match}}
        for topic, by_match in sorted(report.counts.items())
    )
    found = report.to_json()
    shown = found["ambiguous"][:_SHOWN_MAX]
    show_table(
        {
            "ambiguous entry": each["position"],
            "topic": each["topic"],
            "producer": each["producerName"],
            "sequence id": each["sequenceId"],
            "in the source": ", ".join(each["sourcePositions"]) or "too many",
        }
        for each in shown
    )
    omitted = report.count(Match.AMBIGUOUS) - len(shown)
    if omitted:
        say(f"{omitted:,} further ambiguous entries\nhint: --mapping DIRECTORY writes all of them as Parquet")
    show_table(_row(each) for each in report.translations)
    _show_refusals(report.translations)
    say(f"{len(report.translations):,} subscriptions were translated from {report.source} to {report.target}")


def _row(each: Translation) -> dict[str, object]:
    return {
        "subscription": each.subscription,
        "topic": each.topic,
        "mark-delete position": str(each.mark_delete),
        "ranges after it": f"{len(each.ranges):,}",
        "partly": f"{len(each.batches):,}",
        "unacknowledged": f"{each.unacknowledged:,}",
        "undecided": f"{each.undecided:,}",
        "only in source": f"{each.only_in_source:,}",
        "set": {None: "", True: "yes", False: "no"}[each.applied],
    }


def _show_refusals(translations: Sequence[Translation]) -> None:
    for each in translations:
        if each.refusal:
            say(f"subscription {each.subscription} of {each.topic} was not set: {each.refusal}")
