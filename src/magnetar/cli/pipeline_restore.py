"""``magnetar pipeline restore``: publish the messages of an archive."""

from __future__ import annotations

import os
from datetime import UTC, datetime
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
    from magnetar.jobs.archive.report import RestoreReport


def restore(
    *,
    cluster: Annotated[str, typer.Option(help="Cluster of the targets, as name=admin URL or as a profile.")],
    directory: Annotated[Path, typer.Option(help="Directory of the archive.")],
    topics: Annotated[str, typer.Option(help="Topics of the archive, separated by commas; default: all.")] = "",
    to: Annotated[
        str,
        typer.Option(
            help="Target of a single topic, or SOURCE=TARGET for several, separated by commas; default: the same name."
        ),
    ] = "",
    start_time: Annotated[
        str, typer.Option(help="Earliest publish time, as 2026-01-31 or 2026-01-31T12:30:00; UTC without an offset.")
    ] = "",
    end_time: Annotated[str, typer.Option(help="End of the publish times, exclusive; in the same form.")] = "",
    append: Annotated[bool, typer.Option("--append", help="Accept targets that have messages already.")] = False,
    compression: Annotated[str, typer.Option(help="NONE, LZ4, ZLIB, ZSTD or SNAPPY.")] = "NONE",
    master: SparkMaster = None,
    work_dir: WorkDirectory = None,
    spark_log: SparkLog = None,
    conf: SparkConf = None,
    package: Package = None,
    client_conf: ClientConf = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """Publish the messages of an archive, with their keys, times and properties, in the order of their topics.

    After an interruption, the same command continues. Each message is published once.
    """
    times = [_time("--start-time", start_time), _time("--end-time", end_time)]
    require_spark(os.environ)
    from magnetar.jobs.archive.restoring import STEP  # noqa: PLC0415 - Spark is heavy, and needs Java
    from magnetar.jobs.archive.restoring import restore as publish  # noqa: PLC0415
    from magnetar.jobs.archive.settings import RestoreSettings  # noqa: PLC0415

    settings = RestoreSettings(
        cluster=address_of(cluster, client_conf),
        directory=directory.absolute(),
        topics=tuple(names(topics)),
        to=to,
        start_time=times[0],
        end_time=times[1],
        is_append=append,
        compression=_compression(compression),
        spark=spark_settings(master, work_dir, spark_log, conf, package),
    )
    with progress("restore", (STEP,)) as tell, continued():
        report = publish(settings, tell, stop_of_signals())
    _show(report, output)


def _time(option: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"{option}: {text!r} is not a time such as 2026-01-31T12:30:00"
        raise ConfigurationError(message) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _compression(text: str) -> str:
    from magnetar.wire.entries.batch import compression_named  # noqa: PLC0415 - not needed by other commands

    try:
        compression_named(text)
    except ValueError as error:
        message = f"--compression: {error}"
        raise ConfigurationError(message) from None
    return text


def _show(report: RestoreReport, output: Output) -> None:
    if output is Output.JSON:
        show_json(report.to_json())
        return
    show_table(
        {
            "topic": each.topic,
            "target": each.target,
            "messages": f"{each.messages:,}",
            "restored before": f"{each.before:,}",
        }
        for each in report.topics
    )
    say(f"{report.messages:,} messages of {report.directory} were published")
