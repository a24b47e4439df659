"""``magnetar pipeline``: replicate, compare, archive, restore and translate topics with Apache Spark."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import NamespaceName
from magnetar.cli.global_options import noun
from magnetar.cli.output import UNKNOWN, Output, say, table
from magnetar.cli.pipeline_archive import archive
from magnetar.cli.pipeline_audit import audit
from magnetar.cli.pipeline_classes import share_classes
from magnetar.cli.pipeline_package import package
from magnetar.cli.pipeline_restore import restore
from magnetar.cli.pipeline_translate import translate
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
from magnetar.cli.standard_output import OutputError
from magnetar.ops.spark import require_spark
from magnetar.pipeline import limits
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from magnetar.pipeline.driver.metrics import ReplicationMetrics
    from magnetar.pipeline.driver.replicate import Event, Progress

app = noun("Replicate, compare, archive, restore and translate topics with Apache Spark.")


@app.command()
def replicate(
    *,
    clusters: Clusters,
    lease_seconds: Annotated[
        float, typer.Option(help="Seconds for which a task holds its links.")
    ] = limits.LEASE_SECONDS,
    parallelism: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LINK_BUCKETS,
            help="Tasks among which the links to a cluster are divided, by their traffic. Default: 1, or on a Spark "
            f"cluster as many as half of the slots have room for, at most {limits.PARALLELISM_MAX}.",
        ),
    ] = None,
    master: SparkMaster = None,
    work_dir: WorkDirectory = None,
    spark_log: SparkLog = None,
    conf: SparkConf = None,
    package: Package = None,
    client_conf: ClientConf = None,
    namespaces: Annotated[
        str,
        typer.Option(
            help="Namespaces to replicate from Apache Pulsar in addition to those in Magnetar's policies, "
            "separated by commas."
        ),
    ] = "",
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the Prometheus metrics.")] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Format of the progress; text: a table if stdout is a terminal.")
    ] = Output.TEXT,
) -> None:
    """Replicate every topic of replicated namespaces between the clusters until Ctrl-C."""
    require_spark(os.environ)
    from magnetar.pipeline.driver.metrics import ReplicationMetrics  # noqa: PLC0415 - Spark is heavy, and needs Java
    from magnetar.pipeline.driver.replicate import Replication, Settings  # noqa: PLC0415

    always = tuple(str(NamespaceName.parse(name)) for name in names(namespaces))
    spark = spark_settings(master, work_dir, spark_log, conf, package)
    settings = Settings(addresses_of(clusters, client_conf), lease_seconds, spark, parallelism, always)
    stop = stop_of_signals()
    metrics = ReplicationMetrics()
    if metrics_port is not None:
        _serve(metrics, metrics_port)
    show = _json_lines() if output is Output.JSON or not sys.stdout.isatty() else _table()

    def tell(event: Event) -> None:
        metrics.note(event)
        show(event)

    Replication(settings, tell, random.Random()).run(stop)  # noqa: S311 - jitter, not secrets


def _serve(metrics: ReplicationMetrics, port: int) -> None:
    """Serve the metrics; raises ConfigurationError if the port cannot be used."""
    try:
        metrics.serve(port)
    except OSError as error:
        message = f"cannot use port {port} for the metrics: {error.strerror}\nhint: choose another --metrics-port"
        raise ConfigurationError(message) from error


def _json_lines() -> Callable[[Event], None]:
    from magnetar.pipeline.driver.replicate import event_json  # noqa: PLC0415

    lock = threading.Lock()

    def show(event: Event) -> None:
        # Replication continues when the reader of stdout has gone, or its disk is full.
        with lock, contextlib.suppress(OutputError):
            sys.stdout.write(json.dumps(event_json(event)) + "\n")
            sys.stdout.flush()

    return show


def _table() -> Callable[[Event], None]:
    from magnetar.pipeline.driver.replicate import (  # noqa: PLC0415
        Moved,
        Progress,
        QueryEnded,
        Ready,
        Rival,
        SparkStarted,
        Warned,
    )

    live = Live(Text("Starting Spark …"), auto_refresh=False)
    live.start(refresh=True)

    def show(event: Event) -> None:
        match event:
            case SparkStarted():
                live.update(Text("Spark has started; the links are being attached …"), refresh=True)
            case Ready():
                live.update(Text("All links are attached. Press Ctrl-C to stop."), refresh=True)
            case QueryEnded(turn, reason, seconds):
                say(f"query {turn} ended and restarts in {seconds:.1f} s: {reason}")
            case Rival(target, pipeline):
                say(f"warning: pipeline {pipeline} also replicates to {target}\nhint: stop one of the two pipelines")
            case Moved(cluster, broker_url):
                say(f"the address of {cluster} changed to {broker_url}: the queries restart")
            case Warned(text):
                say(f"warning: {text}" if text else "Spark has enough task slots for the links again")
            case Progress():
                live.update(progress_table(event, live.console.width), refresh=True)

    return show


def progress_table(progress: Progress, width: int) -> RenderableType:
    """Return the progress of all links, in at most ``width`` columns, and the links that wait."""
    rows = [
        {
            "link": f"{link.source} → {link.target}",
            "topics": f"{link.topics:,}",
            "messages": f"{link.messages:,}",
            "per second": f"{link.rate:,.1f}",
            "behind": UNKNOWN if link.backlog is None else f"{link.backlog:,}",
            "behind by": UNKNOWN if link.delay_seconds is None else f"{link.delay_seconds:,.1f} s",
        }
        for link in progress.links
    ]
    notes = [
        Text(f"{kind} {name}: {reason}")
        for task in progress.tasks
        for kind, reasons in (("down:", task.down), (f"waiting, to {task.target}:", task.parked))
        for name, reason in sorted(reasons.items())
    ]
    return Group(*([table(rows, width)] if rows else []), *notes)


app.command()(package)
app.command("share-classes")(share_classes)
app.command()(audit)
app.command()(archive)
app.command()(restore)
app.command()(translate)
