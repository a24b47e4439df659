"""``magnetar up``: run clusters and their pipeline on this machine, for development."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.cli.output import Output, show_lines, show_table
from magnetar.cli.profile_store import Profile, load_profiles, save_profiles
from magnetar.cli.session import names
from magnetar.cli.spark_options import Package, SparkMaster, spark_arguments
from magnetar.cli.start_steps import StartSteps
from magnetar.ops.layout import LocalCluster, hold, lay_out, pipeline_command, require_free_ports
from magnetar.ops.local_clusters import Host, LocalClusters
from magnetar.ops.secure import ADMIN, APPLICATION, Security, set_up
from magnetar.ops.spark import require_spark

app = typer.Typer()


@app.command()
def up(
    *,
    clusters: Annotated[str, typer.Option(help="Names of the clusters, separated by commas.")] = "ewr,jfk,lga",
    data: Annotated[Path, typer.Option(help="Directory of all data, configuration and logs.")] = Path("build/up"),
    base_port: Annotated[
        int, typer.Option(help="First port; each cluster uses two, 10 after those of the previous one.")
    ] = 16650,
    pipeline: Annotated[bool, typer.Option(help="Replicate between the clusters.")] = True,
    secure: Annotated[
        bool,
        typer.Option("--secure", help="TLS, tokens and permissions: clients may do what a role has been granted only."),
    ] = False,
    master: SparkMaster = None,
    package: Package = None,
    profiles: Annotated[bool, typer.Option(help="Add the clusters to your profiles.")] = True,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format of the endpoints.")] = Output.TEXT,
) -> None:
    """Start clusters and their pipeline on this machine, and keep them running until Ctrl-C.

    Progress and messages are shown on a terminal, and written to stderr as JSON lines otherwise. Each process has a
    file in DATA/logs, and Spark another one. The files are rotated like the logFile of a broker.

    With --secure, keys, certificates and tokens are in DATA/security. The role admin may do everything, the role app
    nothing until it is permitted. Each broker has an audit log in DATA/logs.

    With --master, the pipeline runs on a Spark cluster, whose workers must reach the brokers on this machine.
    """
    cluster_names = names(clusters)
    with_pipeline = pipeline and len(cluster_names) > 1  # a single cluster has no target
    spark_options = spark_arguments(master, package)
    if with_pipeline:
        _require_spark()
    elif spark_options:
        message = "--master has no effect without a pipeline\nhint: name two clusters, and omit --no-pipeline"
        raise ConfigurationError(message)
    stop_request = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop_request.set())
    lay_out(cluster_names, data, base_port)  # refuses invalid names before anything is written
    with hold(data):
        security = set_up(data.resolve() / "security", cluster_names, datetime.now(UTC)) if secure else None
        laid_out = lay_out(cluster_names, data, base_port, security)
        require_free_ports(laid_out)
        steps = StartSteps()
        pipeline_of = pipeline_command(laid_out, spark_options) if with_pipeline else None
        local = LocalClusters(laid_out, Host(stop_request, steps.tell, steps.show), pipeline_of)
        try:
            with steps:
                local.start()
            _announce(local, output)
            if profiles:
                for line in add_profiles(laid_out):
                    steps.tell(line)
            for line in () if security is None else connecting(laid_out[0], security):
                steps.tell(line)
            if output is Output.TEXT:
                steps.tell(
                    f"Logs are in {laid_out[0].directory.parent / 'logs'}. Press Ctrl-C to stop; the data is kept."
                )
            local.supervise()
        finally:
            local.stop()


def _require_spark() -> None:
    try:
        require_spark(os.environ)
    except ConfigurationError as error:
        message = f"{error}; or omit the pipeline with --no-pipeline"
        raise ConfigurationError(message) from None


def _announce(local: LocalClusters, output: Output) -> None:
    if output is Output.JSON:
        show_lines([json.dumps(local.endpoints())])
    else:
        show_table(
            {"cluster": each.name, "clients connect to": each.service_url, "admin REST API": each.admin_url}
            for each in local.clusters
        )
    sys.stdout.flush()


def _is_same(one: str, other: str) -> bool:
    """Return whether two URLs name the same cluster, with or without TLS."""
    return one.partition("://")[2] == other.partition("://")[2]


def connecting(cluster: LocalCluster, security: Security) -> list[str]:
    """Return how to use a secured cluster with the official Python client."""
    token, trust = security.token(APPLICATION), security.trust
    client = (
        f"  import pulsar\n"
        f"  token = open({str(token)!r}).read()\n"
        f"  client = pulsar.Client({cluster.service_url!r}, authentication=pulsar.AuthenticationToken(token),\n"
        f"                         tls_trust_certs_file_path={str(trust)!r})"
    )
    grant = f"grant-permission public/default --role {APPLICATION} --actions produce,consume"
    conf = f"PULSAR_CLIENT_CONF={security.conf(ADMIN)}"
    return [
        f"Clients trust {trust} and present a token, for example of the role {APPLICATION}:",
        client,
        f"The role {APPLICATION} may do nothing yet. Permit it: magnetar --cluster {cluster.name} namespaces {grant}",
        f"Commands without a profile: {conf} magnetar --admin-url {cluster.admin_url} ...",
    ]


def add_profiles(clusters: tuple[LocalCluster, ...]) -> list[str]:
    """Add the clusters to the profiles of the user, and return messages. A profile of another cluster is not changed.

    A file that cannot be read or written is reported: the clusters run without it.
    """
    try:
        profiles = load_profiles()
        added, others = [], []
        for each in clusters:
            known = profiles.by_name.get(each.name)
            if known is None or _is_same(known.admin_url, each.admin_url):
                profiles = profiles.with_profile(each.name, Profile(each.admin_url, each.service_url, each.credentials))
                added.append(each.name)
            else:
                others.append(each)
        save_profiles(profiles)
    except ConfigurationError as error:
        return [f"warning: the clusters are not in your profiles: {error}"]
    said = [f"Address a cluster by its name, for example: magnetar tenants list --cluster {added[0]}"] if added else []
    return said + [
        f"The profile {each.name} names another cluster and is kept; to replace it: magnetar profiles set {each.name} "
        f"--admin-url {each.admin_url} --service-url {each.service_url}"
        for each in others
    ]
