"""``magnetar pipeline archive``: write the messages of topics to Parquet."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.cli.cluster_urls import with_urls
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, say, show_json, show_table
from magnetar.cli.progress import progress
from magnetar.cli.session import names
from magnetar.ops.spark import require_spark
from magnetar.pipeline.addresses import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.jobs.archive.report import ArchiveReport
    from magnetar.pipeline.options import ClusterAddress


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
    master: Annotated[str | None, typer.Option(help="Spark master; default: Spark runs in this process.")] = None,
    work_dir: Annotated[Path | None, typer.Option(help="Directory of Spark's temporary files.")] = None,
    spark_log: Annotated[
        Path | None, typer.Option(help="File of Spark's own output, which is rotated; default: stderr.")
    ] = None,
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
        cluster=address(cluster),
        directory=directory.absolute(),
        topics=tuple(names(topics)),
        topics_pattern=topics_pattern,
        interval_seconds=interval_seconds if continuous else None,
        subscription=subscription,
        fail_on_data_loss=fail_on_data_loss,
        master=master,
        work_dir=work_dir,
        spark_log=spark_log,
    )
    with progress("archive", (STEP,)) as tell, continued():
        report = write(settings, tell, stop_of_signals())
    _show(report, output)


def address(cluster: str) -> ClusterAddress:
    """Return the addresses of one cluster; raises as ``addresses``."""
    found = addresses(with_urls(cluster))
    if len(found) != 1:
        message = f"--cluster: {cluster!r} is not one cluster"
        raise ConfigurationError(message)
    return found[0]


@contextmanager
def continued() -> Iterator[None]:
    """Add a hint to the error of a job that was stopped."""
    from magnetar.jobs.session import InterruptedJobError  # noqa: PLC0415 - Spark is heavy

    try:
        yield
    except InterruptedJobError as error:
        failure = Failure(ExitCode.FAILED, str(error), "run the same command again to continue")
        raise FailedError(failure) from error


def stop_of_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _show(report: ArchiveReport, output: Output) -> None:
    if output is Output.JSON:
        show_json(report.to_json())
        return
    show_table(
        {"topic": topic, "entries": f"{entries:,}", "next": report.ends[topic]}
        for topic, entries in report.entries.items()
    )
    say(f"{report.messages:,} messages were added to {report.directory}")
