"""The options of a replication: the clusters and the leases. Spark passes them on as data source options."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline import limits
from magnetar.wire.links import LINK_BUCKETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The addresses of a cluster."""

    name: str
    broker_url: str
    admin_url: str
    client_conf: str = ""
    """Path of a client.conf of Pulsar with credentials, which each process reads; empty: as ``credentials_in``."""


def client_confs(clusters: Iterable[ClusterAddress]) -> tuple[str, ...]:
    """Return the files with the credentials for clusters, each once."""
    return tuple(dict.fromkeys(cluster.client_conf for cluster in clusters))


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    """The options of a task; ``turn`` is the query's parity, 0 or 1."""

    clusters: tuple[ClusterAddress, ...]
    namespaces: tuple[str, ...] = ()
    """Namespaces to read from foreign clusters, besides those in the policies of Magnetar clusters."""
    parallelism: int = 1
    """Number of tasks among which the links to a target are divided."""
    division_path: str = ""
    """File of the driver that states the number for the next lease, and the traffic of the links; may be missing."""
    turn: int = 0
    lease_seconds: float = limits.LEASE_SECONDS
    status_host: str = ""
    status_port: int = 0
    """UDP port on which the driver receives `TaskStatus`; 0: none."""
    pipeline: str = ""
    """Identifier of this run of the pipeline, to distinguish pipelines that carry the same links."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for invalid settings."""
        names = [cluster.name for cluster in self.clusters]
        if len(set(names)) != len(names) or len(names) < 2:  # noqa: PLR2004 - a link has two ends
            message = f"clusters: expected at least two clusters with different names, got {names}"
            raise ConfigurationError(message)
        if not 1 <= self.parallelism <= LINK_BUCKETS:
            message = f"parallelism: {self.parallelism} is not between 1 and {LINK_BUCKETS}"
            raise ConfigurationError(message)
        if self.lease_seconds < limits.LEASE_SECONDS_MIN:
            message = f"lease-seconds: {self.lease_seconds} is too short, use {limits.LEASE_SECONDS_MIN} or more"
            raise ConfigurationError(message)

    def to_spark(self) -> dict[str, str]:
        """Return the options in the form of Spark's options."""
        return {"replication": json.dumps(asdict(self))}

    @classmethod
    def from_spark(cls, options: Mapping[str, str]) -> Self:
        """Parse the result of `to_spark`; raises ConfigurationError if it is missing."""
        if "replication" not in options:
            message = "option replication is missing: pass ReplicationOptions(...).to_spark()"
            raise ConfigurationError(message)
        fields = json.loads(options["replication"])
        clusters = tuple(ClusterAddress(**cluster) for cluster in fields.pop("clusters"))
        return cls(clusters=clusters, namespaces=tuple(fields.pop("namespaces")), **fields)
