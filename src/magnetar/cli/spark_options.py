"""Parts of all commands of the pipeline: clusters, options of Spark, and the end by a signal."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.cli.failures import ExitCode, FailedError, Failure
from magnetar.cli.profile_store import Profiles, load_profiles
from magnetar.cli.session import names
from magnetar.pipeline.addresses import addresses, is_for_all
from magnetar.pipeline.driver.settings import SparkSettings, parse_conf
from magnetar.security.credentials import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.pipeline.options import ClusterAddress

Clusters = Annotated[str, typer.Option(help="Clusters as name=admin URL or as profiles, separated by commas.")]
SparkMaster = Annotated[str | None, typer.Option(help="Spark master; default: Spark runs in this process.")]
WorkDirectory = Annotated[Path | None, typer.Option(help="Directory of Spark's temporary files.")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="Setting of Spark, as for spark-submit; repeatable. A later one has precedence, and all of them over "
        "spark-defaults.conf.",
    ),
]
Package = Annotated[
    Path | None,
    typer.Option(help="Package for executors without Magnetar, from 'magnetar pipeline package'.", dir_okay=False),
]
ClientConf = Annotated[
    list[str] | None,
    typer.Option(
        "--client-conf",
        metavar="[NAME=]PATH",
        help="client.conf of Pulsar with the credentials for the cluster NAME, or for all others; repeatable. It is "
        "read on the driver and on executors. Default: that of PULSAR_CLIENT_CONF.",
    ),
]
SparkLog = Annotated[Path | None, typer.Option(help="File of Spark's own output, which is rotated; default: stderr.")]


def spark_settings(
    master: str | None, work_dir: Path | None, spark_log: Path | None, conf: list[str] | None, package: Path | None
) -> SparkSettings:
    """Return the options of Spark; raises ConfigurationError for a wrong one."""
    work_dir = None if work_dir is None else work_dir.absolute()
    settings = SparkSettings(master, work_dir, spark_log, parse_conf(conf or ()), package)
    if package is not None and settings.is_local:
        message = "--package is for a Spark cluster\nhint: name its --master"
        raise ConfigurationError(message)
    return settings


def spark_arguments(master: str | None, package: Path | None) -> list[str]:
    """Return the arguments of a pipeline that runs in another process; raises ConfigurationError for a wrong option."""
    spark_settings(master, None, None, None, package)
    arguments = [] if master is None else ["--master", master]
    return arguments if package is None else [*arguments, "--package", str(package.absolute())]


def addresses_of(
    clusters: str, client_confs: list[str] | None, option: str = "--clusters"
) -> tuple[ClusterAddress, ...]:
    """Return the addresses of the clusters in an option; raises as ``with_urls`` and ``addresses``."""
    given = client_confs or []
    return addresses(with_urls(clusters, given), option, given)


def address_of(cluster: str, client_confs: list[str] | None) -> ClusterAddress:
    """Return the addresses of ``--cluster``; raises as ``addresses_of``, and ConfigurationError for several."""
    if len(names(cluster)) != 1:
        message = f"--cluster: {cluster!r} is not one cluster"
        raise ConfigurationError(message)
    return addresses_of(cluster, client_confs, "--cluster")[0]


def stop_of_signals() -> threading.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def with_urls(clusters: str, client_confs: Sequence[str]) -> str:
    """Return ``clusters`` with the admin URL of each name that is given alone, from its profile.

    Raises ConfigurationError if there is no such profile, or if it has credentials and no client.conf replaces them:
    executors have no profiles.
    """
    parts = names(clusters)
    profiles = load_profiles() if any("=" not in part for part in parts) else Profiles()
    return ",".join(part if "=" in part else f"{part}={_url_of(part, part, profiles, client_confs)}" for part in parts)


def url_of(cluster: str, name: str, client_confs: Sequence[str]) -> str:
    """Return the admin URL of the cluster ``name``, given by it or by a profile; raises as ``with_urls``."""
    return cluster if "://" in cluster else _url_of(cluster, name, load_profiles(), client_confs)


def _url_of(profile_name: str, name: str, profiles: Profiles, client_confs: Sequence[str]) -> str:
    profile = profiles.named(profile_name)
    is_replaced = any(is_for_all(text) or text.startswith(f"{name}=") for text in client_confs)
    if profile.credentials != NONE and not is_replaced:
        message = (
            f"the profile {profile_name} has credentials, but tasks read them from a client.conf"
            f"\nhint: write them to one, and give --client-conf {name}=PATH"
        )
        raise ConfigurationError(message)
    return profile.admin_url


@contextmanager
def continued() -> Iterator[None]:
    """Add a hint to the error of a job that was stopped."""
    from magnetar.jobs.session import InterruptedJobError  # noqa: PLC0415 - Spark is heavy

    try:
        yield
    except InterruptedJobError as error:
        failure = Failure(ExitCode.FAILED, str(error), "run the same command again to continue")
        raise FailedError(failure) from error
