"""The demo's three clusters: ``magnetar up`` as a child process, the replicated namespace, and their statistics."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magnetar.admin.client import AdminClient
from magnetar.base.errors import AdminError, ClusterUnreachableError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.demo.account import DemoError
from magnetar.demo.flights import AIRPORTS
from magnetar.demo.messages import Access, credentials_of, now_ms
from magnetar.demo.plan import NAMESPACE, SUBSCRIPTION, TENANT, TOPIC
from magnetar.demo.samples import Percentiles
from magnetar.ops.layout import MAGNETAR
from magnetar.ops.processes import Command, Process, describe_exit, tail
from magnetar.ops.secure import ADMIN, APPLICATION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

START_TIMEOUT_SECONDS = 240.0
"""Time limit for the start of three brokers and Spark."""

STOP_TIMEOUT_SECONDS = 60.0
"""Time limit for stopping, after which the processes are killed."""

POLL_SECONDS = 0.1
"""Interval between two checks of a start or stop."""

ADMIN_TIMEOUT_SECONDS = 5.0
"""Time limit for an admin request."""

_TOPIC = TopicName.parse(TOPIC)
_NAMESPACE = NamespaceName.parse(NAMESPACE)


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """The statistics of the demo's topic in one cluster."""

    at_ms: float
    """Time of the request, in milliseconds since the epoch."""
    consumers: int
    backlog: int
    """Number of messages that the subscription has not acknowledged there."""
    progress_age_seconds: dict[str, float]
    """By remote cluster, if known, the age of the oldest acknowledgement that it has not confirmed."""
    progress_applied: dict[str, Percentiles]
    """By source cluster, milliseconds from an acknowledgement there to its application here."""
    replication_backlog: int | None
    """Number of entries that the other clusters lack; None while unknown."""
    handovers: dict[str, int]

    @classmethod
    def of(cls, stats: dict[str, Any], at_ms: float) -> TopicStatus:
        """Convert TopicStats."""
        subscription = stats["subscriptions"].get(SUBSCRIPTION, {})
        applied = subscription.get("progressApplied") or {}
        backlogs = [link.get("replicationBacklog") for link in stats["replication"].values()]
        return cls(
            at_ms=at_ms,
            consumers=len(subscription.get("consumers", ())),
            backlog=subscription.get("msgBacklog", 0),
            progress_age_seconds={
                remote: age for remote, age in (subscription.get("progressAgeSeconds") or {}).items() if age is not None
            },
            progress_applied={
                source: Percentiles(each["p50"], each["p99"], int(each["count"])) for source, each in applied.items()
            },
            replication_backlog=None if None in backlogs else sum(backlogs),
            handovers={remote: link.get("handovers", 0) for remote, link in stats["replication"].items()},
        )


@dataclass(slots=True)
class Clusters:
    """Three running clusters."""

    process: Process
    endpoints: dict[str, dict[str, Any]]
    security: dict[str, Any] | None = None
    """Files with the certificate and the tokens of secured clusters."""
    _admins: dict[str, AdminClient] = field(default_factory=dict)

    def access(self, cluster: str) -> Access:
        """Return the way for clients."""
        return Access(str(self.endpoints[cluster]["service_url"]), *self._files(APPLICATION))

    def _files(self, role: str) -> tuple[Path | None, Path | None]:
        """Return the files with the token of a role, and with the certificate that clients trust."""
        if self.security is None:
            return None, None
        return Path(self.security["tokens"][role]), Path(self.security["trust"])

    def admin(self, cluster: str) -> AdminClient:
        """Return a client of the cluster's admin API."""
        if cluster not in self._admins:
            url = str(self.endpoints[cluster]["admin_url"])
            credentials = credentials_of(*self._files(ADMIN))
            self._admins[cluster] = AdminClient(url, timeout_s=ADMIN_TIMEOUT_SECONDS, credentials=credentials)
        return self._admins[cluster]

    def create_namespace(self) -> None:
        """Create the replicated namespace, with retention of acknowledged messages, which are counted later.

        One cluster is told; the others get it from the metadata synchronizer.
        """
        admin = self.admin(AIRPORTS[0])
        admin.tenants.create(TENANT, AIRPORTS)
        admin.namespaces.create(_NAMESPACE, AIRPORTS)
        if self.security is not None:
            admin.permissions.grant(_NAMESPACE, APPLICATION, ["produce", "consume"])
        admin.policies.set_retention(_NAMESPACE, minutes=-1, megabytes=-1)

    def has_namespace(self, cluster: str) -> bool:
        """Return whether a cluster has the namespace with all its policies."""
        try:
            return bool(self.admin(cluster).namespaces.policies(_NAMESPACE).get("retention_policies"))
        except (AdminError, ClusterUnreachableError):
            return False

    def status(self, cluster: str) -> TopicStatus | None:
        """Return the topic's statistics in a cluster; None if the cluster does not answer or has no such topic."""
        at_ms = now_ms()
        try:
            return TopicStatus.of(self.admin(cluster).topics.stats(_TOPIC, precise_backlog=True), at_ms)
        except (AdminError, ClusterUnreachableError):
            return None

    def is_healthy(self, cluster: str) -> bool:
        """Return whether the cluster is available."""
        try:
            self.admin(cluster).brokers.check_health()
        except (AdminError, ClusterUnreachableError):
            return False
        return True

    def kill_broker(self, cluster: str) -> None:
        """Kill the oldest broker process of a cluster with SIGKILL; ``magnetar up`` restarts it."""
        os.kill(int(self.endpoints[cluster]["pid"]), signal.SIGKILL)

    def stop(self) -> None:
        """Stop all processes."""
        for admin in self._admins.values():
            admin.close()
        self.process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.process.kill_group()


def start_clusters(
    data: Path, base_port: int, *, keep: bool, names: Sequence[str] = AIRPORTS, options: Sequence[str] = ()
) -> Clusters:
    """Start ``magnetar up`` with the clusters ``names`` and further ``options``.

    With ``keep`` it outlives this process. Raises DemoError with its output if the start fails.
    """
    log = data / "logs" / "up.log"
    arguments = [*MAGNETAR, "up", "--clusters", ",".join(names), "--data", str(data), "--base-port", str(base_port)]
    arguments += ["--no-profiles", "--output", "json", *options]
    command = Command("magnetar up", arguments, data, log, outlives_parent=keep)
    process = Process(command)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while (found := _endpoints(log)) is None:
        status = process.poll()
        if status is not None or time.monotonic() > deadline:
            process.kill_group()
            what = describe_exit(status) if status is not None else "did not come up"
            message = f"magnetar up {what}:\n{tail(log)}"
            raise DemoError(message)
        time.sleep(POLL_SECONDS)
    return Clusters(process, found["clusters"], found.get("security"))


def _endpoints(log: Path) -> dict[str, Any] | None:
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith('{"clusters"') and line.endswith("}"):
            return dict(json.loads(line))
    return None


class Watch:
    """Polls the clusters' statistics at a limited rate, and keeps the figures of the report."""

    def __init__(self, ask: Callable[[str], TopicStatus | None]) -> None:
        """Begin without statistics."""
        self._ask = ask
        self.ages_ms: list[float] = []
        self.latest: dict[str, TopicStatus] = {}
        self._handovers: dict[tuple[str, str], int] = {}
        self._handovers_before: int = 0

    def look(self, cluster: str) -> TopicStatus | None:
        """Poll one cluster."""
        status = self._ask(cluster)
        if status is None:
            return None
        self.latest[cluster] = status
        for remote, count in status.handovers.items():
            known = self._handovers.get((cluster, remote), 0)
            if count < known:  # a restarted broker counts from 0
                self._handovers_before += known
            self._handovers[cluster, remote] = count
        return status

    def sample_age(self, cluster: str, down: str | None) -> None:
        """Sample the age of the oldest acknowledgement of ``cluster`` unconfirmed by a cluster other than ``down``."""
        status = self.look(cluster)
        ages = status.progress_age_seconds if status is not None else {}
        known = [age for remote, age in ages.items() if remote != down]
        self.ages_ms.extend([max(known) * 1000] if known else [])

    @property
    def handovers(self) -> int:
        """Return how often a link passed from one lease of the pipeline to the next."""
        return self._handovers_before + sum(self._handovers.values())
