"""``magnetar up``: run clusters and their pipeline on this machine, for development."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.cli.output import Output, say, show_lines, show_table
from magnetar.cli.session import names
from magnetar.ops.layout import hold, lay_out, require_free_ports
from magnetar.ops.local_clusters import Host, LocalClusters
from magnetar.ops.spark import require_spark

app = typer.Typer()


@app.command()
def up(
    clusters: Annotated[str, typer.Option(help="Names of the clusters, separated by commas.")] = "ewr,jfk,lga",
    data: Annotated[Path, typer.Option(help="Directory of all data, configuration and logs.")] = Path("build/up"),
    base_port: Annotated[
        int, typer.Option(help="First port; each cluster uses two, 10 after those of the previous one.")
    ] = 16650,
    pipeline: Annotated[bool, typer.Option(help="Replicate between the clusters.")] = True,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format of the endpoints.")] = Output.TEXT,
) -> None:
    """Start clusters and their pipeline on this machine, and keep them running until Ctrl-C."""
    cluster_names = names(clusters)
    with_pipeline = pipeline and len(cluster_names) > 1  # a single cluster has no target
    if with_pipeline:
        _require_spark()
    stop_request = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop_request.set())
    laid_out = lay_out(cluster_names, data, base_port)
    with hold(data):
        require_free_ports(laid_out)
        local = LocalClusters(laid_out, Host(stop_request, say), with_pipeline=with_pipeline)
        try:
            local.start()
            _announce(local, output, laid_out[0].directory.parent)
            local.supervise()
        finally:
            local.stop()


def _require_spark() -> None:
    try:
        require_spark(os.environ)
    except ConfigurationError as error:
        message = f"{error}; or omit the pipeline with --no-pipeline"
        raise ConfigurationError(message) from None


def _announce(local: LocalClusters, output: Output, root: Path) -> None:
    if output is Output.JSON:
        show_lines([json.dumps(local.endpoints())])
    else:
        show_table(
            {"cluster": each.name, "clients connect to": each.service_url, "admin REST API": each.admin_url}
            for each in local.clusters
        )
        say(f"Logs are in {root / 'logs'}. Press Ctrl-C to stop; the data is kept.")
    sys.stdout.flush()
