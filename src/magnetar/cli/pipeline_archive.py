"""``magnetar pipeline archive``: write the messages of topics to Parquet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.base.errors import ConfigurationError
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
    address_of,
    continued,
    spark_settings,
    stop_of_signals,
)
from magnetar.ops.spark import require_spark

if TYPE_CHECKING:
    from magnetar.jobs.archive.report import ArchiveReport


def archive(
    *,
    cluster: Annotated[str, typer.Option(help="Cluster as name=admin URL or as a profile.")],
    directory: Annotated[Path, typer.Option(help="Directory of the archive, which is created or continued.")],
    topics: Annotated[str, typer.Option(help="Topics, separated by commas.")] = "",
    topics_pattern: Annotated[
        str,
        typer.Option(
            help="Instead of --topics: a regular expression for topics of one namespace, as "
            "persistent://public/default/orders-.*"
        ),
    ] = "",
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Go on until Ctrl-C, instead of ending with the newest message.")
    ] = False,
    interval_seconds: Annotated[
        float, typer.Option(min=1, help="With --continuous: seconds between two batches of files.")
    ] = 300.0,
    subscription: Annotated[
        str,
        typer.Option(
            help="Subscription that follows the archive, so that brokers keep messages until they are archived."
        ),
    ] = "",
    fail_on_data_loss: Annotated[
        bool, typer.Option(help="Whether to fail if messages were deleted before they were archived.")
    ] = True,
    master: SparkMaster = None,
    work_dir: WorkDirectory = None,
    spark_log: SparkLog = None,
    conf: SparkConf = None,
    package: Package = None,
    client_conf: ClientConf = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """Write the messages of topics to Parquet, partitioned by topic and day.

    The same command continues an archive: after an interruption, or later with the messages that are new since then.
    Each message is written once.
    """
    if bool(topics) == bool(topics_pattern):
        message = "give one of --topics and --topics-pattern"
        raise ConfigurationError(message)
    require_spark(os.environ)
    from magnetar.jobs.archive.settings import ArchiveSettings  # noqa: PLC0415 - Spark is heavy, and needs Java
    from magnetar.jobs.archive.writing import STEP  # noqa: PLC0415
    from magnetar.jobs.archive.writing import archive as write  # noqa: PLC0415

    settings = ArchiveSettings(
        cluster=address_of(cluster, client_conf),
        directory=directory.absolute(),
        topics=tuple(names(topics)),
        topics_pattern=topics_pattern,
        interval_seconds=interval_seconds if continuous else None,
        subscription=subscription,
        fail_on_data_loss=fail_on_data_loss,
        spark=spark_settings(master, work_dir, spark_log, conf, package),
    )
    with progress("archive", (STEP,)) as tell, continued():
        report = write(settings, tell, stop_of_signals())
    _show(report, output)


def _show(report: ArchiveReport, output: Output) -> None:
    if output is Output.JSON:
        show_json(report.to_json())
        return
    show_table(
        {"topic": topic, "entries": f"{entries:,}", "next": report.ends[topic]}
        for topic, entries in report.entries.items()
    )
    say(f"{report.messages:,} messages were added to {report.directory}")
