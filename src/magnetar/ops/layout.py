"""Names, ports, directories and configuration files of development clusters on one machine.

Cluster ``i``, counted from 0 in the given order, listens on the loopback address: on port ``base_port + 10 * i`` for
Pulsar's binary protocol, and on the next port for the admin REST API.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError
from magnetar.base.names import is_named_entity
from magnetar.ops.processes import Command
from magnetar.ops.secure import PIPELINE
from magnetar.security.credentials import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from magnetar.ops.secure import Security
    from magnetar.security.credentials import Credentials

LOOPBACK = "127.0.0.1"

PORT_STEP = 10
"""Distance between the ports of two clusters."""

PORT_MAX = 65535

CLUSTERS_MAX = 32
"""Maximum number of clusters."""

RESERVED = frozenset({"logs", "pipeline", "security", ".", ".."})
"""Names that no cluster may have: its directory would be another one."""

METADATA_TOPIC = "persistent://pulsar/metadata/events"
"""The event topic by which the clusters share their metadata."""

_PORT_HINT = "hint: stop the process that uses it, or choose another --base-port"
_DATA_HINT = "hint: stop that process, or choose another directory"

MAGNETAR = (sys.executable, "-P", "-m", "magnetar.cli.main")
"""Magnetar's command line, run by the current Python; -P keeps the working directory off the module path."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """One development cluster."""

    name: str
    binary_port: int
    web_port: int
    directory: Path
    """Directory of its configuration and data; ``logs``, beside it, has the logs of all clusters."""
    security: Security | None = None
    """TLS, tokens and permissions; None: each client may do everything."""

    @property
    def service_url(self) -> str:
        """URL for clients."""
        return f"pulsar{'+ssl' if self.security else ''}://{LOOPBACK}:{self.binary_port}"

    @property
    def admin_url(self) -> str:
        """URL of the admin REST API."""
        return f"http{'s' if self.security else ''}://{LOOPBACK}:{self.web_port}"

    @property
    def credentials(self) -> Credentials:
        """Credentials for the admin REST API."""
        return NONE if self.security is None else self.security.credentials

    @property
    def addresses(self) -> dict[str, str]:
        """ClusterData with the URLs."""
        if self.security is None:
            return {"serviceUrl": self.admin_url, "brokerServiceUrl": self.service_url}
        return {"serviceUrlTls": self.admin_url, "brokerServiceUrlTls": self.service_url}

    @property
    def configuration(self) -> dict[str, str]:
        """Settings in ``broker.conf``."""
        ports, security = (self.binary_port, self.web_port), self.security
        audit_log = self.directory.parent / "logs" / f"{self.name}-audit.log"
        secured = {} if security is None else security.settings(self.name, ports) | {"auditLogFile": str(audit_log)}
        return {
            "clusterName": self.name,
            "brokerServicePort": str(self.binary_port),
            "webServicePort": str(self.web_port),
            "bindAddress": LOOPBACK,
            "advertisedAddress": LOOPBACK,
            "dataDirectory": str(self.directory / "data"),
            "metadataSyncEventTopic": METADATA_TOPIC,
            **secured,
        }

    def write_configuration(self) -> Path:
        """Write ``broker.conf`` and return its path."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "broker.conf"
        lines = [f"{key}={_escaped(value)}\n" for key, value in self.configuration.items()]
        file.write_text("".join(["# Written by magnetar up at each start.\n", *lines]), encoding="utf-8")
        return file

    def broker_command(self) -> Command:
        """Write the configuration and return the command of the broker, which reads it."""
        return Command(
            name=self.name,
            arguments=[*MAGNETAR, "broker", "--config", str(self.write_configuration())],
            directory=self.directory,
            log=self.directory.parent / "logs" / f"{self.name}.log",
        )


def lay_out(
    names: Sequence[str], data: Path, base_port: int, security: Security | None = None
) -> tuple[LocalCluster, ...]:
    """Return the clusters ``names`` below ``data``; raises ConfigurationError for invalid names or ports."""
    if not names or len(names) > CLUSTERS_MAX:
        message = f"{len(names)} clusters are named\nhint: name 1 to {CLUSTERS_MAX} clusters"
        raise ConfigurationError(message)
    if len(set(names)) < len(names):
        message = f"a cluster is named twice: {','.join(names)}"
        raise ConfigurationError(message)
    for name in names:
        if not is_named_entity(name) or name in RESERVED:
            message = (
                f"invalid name of a cluster: {name!r}\n"
                "hint: use letters, digits and -=:._; the names logs, pipeline and security are reserved"
            )
            raise ConfigurationError(message)
    if base_port < 1 or base_port + PORT_STEP * (len(names) - 1) + 1 > PORT_MAX:
        message = (
            f"the ports of {len(names)} clusters from {base_port} are out of range\nhint: choose a lower --base-port"
        )
        raise ConfigurationError(message)
    root = data.resolve()
    return tuple(
        LocalCluster(name, base_port + PORT_STEP * index, base_port + PORT_STEP * index + 1, root / name, security)
        for index, name in enumerate(names)
    )


def _escaped(value: str) -> str:
    """Return a value in Java's format of properties, in which a backslash begins an escape."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def pipeline_command(clusters: Sequence[LocalCluster], spark_options: Sequence[str] = ()) -> Command:
    """Return the command of the pipeline that replicates between all ``clusters``, with further options of Spark."""
    root = clusters[0].directory.parent
    served = ",".join(f"{cluster.name}={cluster.admin_url}" for cluster in clusters)
    spark_log = root / "logs" / "spark.log"
    options = ["--clusters", served, "--output", "json", "--spark-log", str(spark_log)]
    security = clusters[0].security
    if security is not None:
        options += ["--client-conf", str(security.conf(PIPELINE))]
    options += spark_options
    return Command(
        name="pipeline",
        arguments=[*MAGNETAR, "pipeline", "replicate", *options],
        directory=root / "pipeline",
        log=root / "logs" / "pipeline.log",
        more_logs=(spark_log,),
    )


def require_free_ports(clusters: Sequence[LocalCluster]) -> None:
    """Raise ConfigurationError, which names the port and its purpose, if a port is in use."""
    for cluster in clusters:
        for port, purpose in ((cluster.binary_port, "binary protocol"), (cluster.web_port, "admin REST API")):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((LOOPBACK, port))
                except OSError as error:
                    reason = os.strerror(error.errno or 0)
                    message = f"cannot use port {port} ({purpose} of {cluster.name}): {reason}\n{_PORT_HINT}"
                    raise ConfigurationError(message) from error


@contextmanager
def hold(data: Path) -> Iterator[None]:
    """Lock ``data``, which is created, for the block.

    Raises ConfigurationError if that fails; it names the process that holds the lock.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        file = (data / "up.lock").open("a+", encoding="ascii")
    except OSError as error:
        message = f"cannot use the directory {data}: {error.strerror}\nhint: choose another directory"
        raise ConfigurationError(message) from error
    with file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            message = f"{data} is in use by another magnetar up (process {holder})\n{_DATA_HINT}"
            raise ConfigurationError(message) from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield
