"""What a replication is told: which clusters, and how its leases are cut. Travels to Spark as data source options."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Self

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline import limits

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Where a cluster is found."""

    name: str
    broker_url: str
    admin_url: str


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    """All that a task must know; ``turn`` is the query's parity, 0 or 1."""

    clusters: tuple[ClusterAddress, ...]
    namespaces: tuple[str, ...] = ()
    """Read from foreign clusters whatever their policies say, besides those that a Magnetar's policies name."""
    turn: int = 0
    lease_seconds: float = limits.LEASE_SECONDS
    status_host: str = ""
    status_port: int = 0
    """Where the driver listens for `TaskStatus`; 0 where nobody does."""
    pipeline: str = ""
    """Names this run of the pipeline, so that two that carry the same links can tell each other apart."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, naming the fix."""
        names = [cluster.name for cluster in self.clusters]
        if len(set(names)) != len(names) or len(names) < 2:  # noqa: PLR2004 - a link has two ends
            message = f"clusters: expected at least two clusters with different names, got {names}"
            raise ConfigurationError(message)
        if self.lease_seconds < limits.LEASE_SECONDS_MIN:
            message = f"lease-seconds: {self.lease_seconds} is too short, use {limits.LEASE_SECONDS_MIN} or more"
            raise ConfigurationError(message)

    def to_spark(self) -> dict[str, str]:
        """Return the options as Spark carries them."""
        return {"replication": json.dumps(asdict(self))}

    @classmethod
    def from_spark(cls, options: Mapping[str, str]) -> Self:
        """Read what `to_spark` wrote; raises ConfigurationError when it is missing."""
        if "replication" not in options:
            message = "option replication is missing: pass ReplicationOptions(...).to_spark()"
            raise ConfigurationError(message)
        fields = json.loads(options["replication"])
        clusters = tuple(ClusterAddress(**cluster) for cluster in fields.pop("clusters"))
        return cls(clusters=clusters, namespaces=tuple(fields.pop("namespaces")), **fields)
