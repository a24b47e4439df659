"""The demo's three clusters: ``magnetar up`` as a child, the replicated namespace, and what the brokers say."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magnetar.admin.client import AdminClient, ClusterUnreachableError
from magnetar.base.errors import AdminError
from magnetar.base.names import NamespaceName, TopicName
from magnetar.demo.account import DemoError
from magnetar.demo.flights import AIRPORTS
from magnetar.demo.messages import now_ms
from magnetar.demo.plan import NAMESPACE, SUBSCRIPTION, TENANT, TOPIC
from magnetar.demo.samples import Percentiles
from magnetar.ops.layout import MAGNETAR
from magnetar.ops.processes import Command, Process, describe_exit, tail

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START_TIMEOUT_SECONDS = 240.0
"""How long three brokers and Spark may take to start."""

STOP_TIMEOUT_SECONDS = 60.0
"""How long they may take to stop before they are killed."""

POLL_SECONDS = 0.1
"""How often it is looked whether they started or stopped."""

ADMIN_TIMEOUT_SECONDS = 5.0
"""How long one admin request may take."""

_TOPIC = TopicName.parse(TOPIC)
_NAMESPACE = NamespaceName.parse(NAMESPACE)


@dataclass(frozen=True, slots=True)
class Standing:
    """What one cluster says of the demo's topic."""

    at_ms: float
    """When it was asked, milliseconds since the epoch."""
    consumers: int
    backlog: int
    """Messages that the subscription has not acknowledged there."""
    progress_age_seconds: dict[str, float]
    """Per remote cluster of which it is known, the age of the oldest acknowledgement that it has not confirmed."""
    progress_applied: dict[str, Percentiles]
    """Per source cluster, milliseconds from acknowledgement there to application here."""
    replication_backlog: int | None
    """Entries that the other clusters do not hold; None while that is not known."""
    handovers: dict[str, int]

    @classmethod
    def of(cls, stats: dict[str, Any], at_ms: float) -> Standing:
        """Read TopicStats."""
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
    _admins: dict[str, AdminClient] = field(default_factory=dict)

    def service_url(self, cluster: str) -> str:
        """Where clients connect."""
        return str(self.endpoints[cluster]["service_url"])

    def admin(self, cluster: str) -> AdminClient:
        """The cluster's admin API."""
        if cluster not in self._admins:
            url = str(self.endpoints[cluster]["admin_url"])
            self._admins[cluster] = AdminClient(url, timeout_s=ADMIN_TIMEOUT_SECONDS)
        return self._admins[cluster]

    def create_namespace(self) -> None:
        """Make the replicated namespace, whose messages are kept when they are acknowledged: they are counted later."""
        for cluster in AIRPORTS:
            admin = self.admin(cluster)
            admin.tenants.create(TENANT, AIRPORTS)
            admin.namespaces.create(_NAMESPACE)
            admin.policies.set_retention(_NAMESPACE, minutes=-1, megabytes=-1)
        for cluster in AIRPORTS:
            self.admin(cluster).namespaces.set_clusters(_NAMESPACE, AIRPORTS)

    def standing(self, cluster: str) -> Standing | None:
        """What the cluster says of the topic now; None when it does not answer or has no such topic yet."""
        at_ms = now_ms()
        try:
            return Standing.of(self.admin(cluster).topics.stats(_TOPIC, precise_backlog=True), at_ms)
        except (AdminError, ClusterUnreachableError):
            return None

    def is_healthy(self, cluster: str) -> bool:
        """Whether the cluster serves."""
        try:
            self.admin(cluster).brokers.check_health()
        except (AdminError, ClusterUnreachableError):
            return False
        return True

    def kill_broker(self, cluster: str) -> None:
        """``kill -9`` of the broker that was started first; ``magnetar up`` starts another."""
        os.kill(int(self.endpoints[cluster]["pid"]), signal.SIGKILL)

    def stop(self) -> None:
        """End everything."""
        for admin in self._admins.values():
            admin.close()
        self.process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.process.kill_group()


def start_clusters(data: Path, base_port: int, *, keep: bool) -> Clusters:
    """Start ``magnetar up`` with one cluster per airport; raises DemoError with what it said when it does not come up.

    With ``keep`` it outlives this process.
    """
    log = data / "logs" / "up.log"
    names = ",".join(AIRPORTS)
    arguments = [*MAGNETAR, "up", "--clusters", names, "--data", str(data), "--base-port", str(base_port)]
    command = Command("magnetar up", [*arguments, "--output", "json"], data, log, outlives_parent=keep)
    process = Process(command)
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while (endpoints := _endpoints(log)) is None:
        status = process.poll()
        if status is not None or time.monotonic() > deadline:
            process.kill_group()
            what = describe_exit(status) if status is not None else "did not come up"
            message = f"magnetar up {what}:\n{tail(log)}"
            raise DemoError(message)
        time.sleep(POLL_SECONDS)
    return Clusters(process, endpoints)


def _endpoints(log: Path) -> dict[str, Any] | None:
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith('{"clusters"') and line.endswith("}"):
            return dict(json.loads(line)["clusters"])
    return None


class Watch:
    """Asks the clusters how they stand, not too often, and keeps what matters in the end."""

    def __init__(self, ask: Callable[[str], Standing | None]) -> None:
        """Nothing is known yet."""
        self._ask = ask
        self.ages_ms: list[float] = []
        self.latest: dict[str, Standing] = {}
        self._handovers: dict[tuple[str, str], int] = {}
        self._handovers_before: int = 0

    def look(self, cluster: str) -> Standing | None:
        """Ask one cluster."""
        standing = self._ask(cluster)
        if standing is None:
            return None
        self.latest[cluster] = standing
        for remote, count in standing.handovers.items():
            known = self._handovers.get((cluster, remote), 0)
            if count < known:  # a broker that was started again counts from 0
                self._handovers_before += known
            self._handovers[cluster, remote] = count
        return standing

    def sample_age(self, cluster: str, down: str | None) -> None:
        """Note how old the oldest acknowledgement of ``cluster`` is that another, not ``down``, has not confirmed."""
        standing = self.look(cluster)
        ages = standing.progress_age_seconds if standing is not None else {}
        known = [age for remote, age in ages.items() if remote != down]
        self.ages_ms.extend([max(known) * 1000] if known else [])

    @property
    def handovers(self) -> int:
        """How often the pipeline passed a link from one lease to the next."""
        return self._handovers_before + sum(self._handovers.values())
