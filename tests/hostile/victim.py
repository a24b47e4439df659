"""The broker under attack, and what it holds at one moment."""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from tests.hostile.catalogue import ELSEWHERE, Place
from tests.kit.processes import connections_to, descriptors, other_sockets, peak_resident_bytes, reset_peak
from tests.kit.rest import Rest, topic_path
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from tests.kit.broker import Broker

MEBIBYTE = 1 << 20
DESCRIPTORS_MAX = 2048
"""Open files of the broker under attack: few enough for one attacker to take all of them."""

MEMORY_LIMIT_MB = 512

EVENT_TOPIC = "persistent://pulsar/metadata/events"
"""The topic of the metadata synchronizer."""

SETTINGS = {
    "memoryLimitMB": MEMORY_LIMIT_MB,
    "managedLedgerCacheSizeMB": 32,
    "logSizeLimit": 8 * MEBIBYTE,  # so that segments roll during an attack
    "keepAliveIntervalSeconds": 5,  # so that silent connections are closed within the time that is allowed
    "retentionCheckIntervalInSeconds": 5,
    "backlogQuotaDefaultLimitBytes": 2048 * MEBIBYTE,
}

BACK_TIMEOUT_S = 40.0
"""Seconds after an attack within which the broker must hold no more than before."""

STALL_S = 0.1
"""Longest turn of the loop that the suite accepts."""

MEMORY_SLACK_BYTES = 64 * MEBIBYTE
"""Resident memory that may stay after an attack: caches up to their limits, and what the allocator keeps."""

DELETIONS_AT_ONCE = 4
TENANT = "hostile"
KEPT_TOPIC = "persistent://public/default/well-behaved"
"""The topic of the well-behaved client."""

ELSEWHERE_RECORD = {"serviceUrl": "http://127.0.0.1:9", "brokerServiceUrl": "pulsar://127.0.0.1:9"}
"""A cluster where nobody listens."""


@dataclass(frozen=True, slots=True)
class State:
    """What the broker holds."""

    resident_bytes: int
    descriptors: Counter[str]
    connections: int
    """Of clients, accepted or not yet."""
    web_connections: int
    other_sockets: int
    """Sockets that are no accepted connections."""
    topics: int
    producers: int
    consumers: int
    is_storage_failed: bool
    stalls: int | None
    """Turns of the loop that were longer than STALL_S since the start; None where the broker does not count them."""
    slow_commits: int | None
    """Groups of entries that took longer than STALL_S to write and sync since the start; None as for ``stalls``."""
    slow_metadata_commits: int | None
    """The same for groups of metadata changes."""
    log_bytes: int

    def left_behind(self, before: State) -> list[str]:
        """Return what is here and was not before; memory is judged by itself.

        Files are left out: the log opens a new segment when one is full, and closes those that are trimmed.
        """
        found = [
            f"{name} {was} → {now}"
            for name, was, now in (
                ("connections", before.connections, self.connections),
                ("REST connections", before.web_connections, self.web_connections),
                ("other sockets", before.other_sockets, self.other_sockets),
                ("pipes", before.descriptors["pipe"], self.descriptors["pipe"]),
                ("topics", before.topics, self.topics),
                ("producers", before.producers, self.producers),
                ("consumers", before.consumers, self.consumers),
            )
            if now > was
        ]
        return [*found, "failed storage"] if self.is_storage_failed else found


def read_state(broker: Broker) -> State:
    """Ask the broker and the system."""
    metrics = broker.rest.metrics()
    return State(
        resident_bytes=broker.resident_bytes(),
        descriptors=descriptors(broker.pid),
        connections=connections_to(broker.binary_port),
        web_connections=connections_to(broker.web_port),
        other_sockets=other_sockets(broker.pid, (broker.binary_port, broker.web_port)),
        topics=_value(metrics, "pulsar_broker_topics_count"),
        producers=_value(metrics, "pulsar_broker_producers_count"),
        consumers=_value(metrics, "pulsar_broker_consumers_count"),
        is_storage_failed=bool(_value(metrics, "magnetar_storage_failed")),
        stalls=stalls_in(metrics),
        slow_commits=slow_commits_in(metrics),
        slow_metadata_commits=slow_metadata_commits_in(metrics),
        log_bytes=log_bytes(broker),
    )


def log_bytes(broker: Broker) -> int:
    """Return the size of the broker's log."""
    return broker.process.log.stat().st_size


def stalls_in(metrics: str) -> int | None:
    """Return the number of turns longer than STALL_S in an exposition; None without the histogram."""
    return _longer_in("magnetar_loop_stall_seconds", metrics)


def slow_commits_in(metrics: str) -> int | None:
    """Return the number of commits longer than STALL_S in an exposition; None without the histogram."""
    return _longer_in("magnetar_storage_commit_seconds", metrics)


def slow_metadata_commits_in(metrics: str) -> int | None:
    """Return the number of commits of metadata longer than STALL_S; None without the histogram."""
    return _longer_in("magnetar_metadata_commit_seconds", metrics)


def _longer_in(histogram: str, metrics: str) -> int | None:
    buckets = {
        float(match["bound"]): float(match["count"])
        for match in re.finditer(
            rf'^{histogram}_bucket\{{[^}}]*le="(?P<bound>[^"]+)"[^}}]*\}} (?P<count>\S+)', metrics, re.MULTILINE
        )
    }
    if not buckets:
        return None
    within = max((count for bound, count in buckets.items() if bound <= STALL_S), default=0.0)
    return int(buckets[float("inf")] - within)


def make_place(broker: Broker, name: str, policies: Mapping[str, object]) -> Place:
    """Make the namespace of an attack with these policies."""
    rest = broker.rest
    rest.ensure(f"clusters/{ELSEWHERE}", ELSEWHERE_RECORD)
    rest.ensure(f"tenants/{TENANT}", {"adminRoles": [], "allowedClusters": [broker.cluster, ELSEWHERE]})
    namespace = f"{TENANT}/{name}"
    rest.ensure(f"namespaces/{namespace}", {})
    for policy, value in policies.items():
        rest.post(f"namespaces/{namespace}/{policy}", value)
    return Place(broker.service_url, broker.admin_url, namespace, broker.cluster, ELSEWHERE)


def wait_for_leave(broker: Broker, before: State) -> None:
    """Wait until the attackers have no connection any more; nothing if that does not happen in time."""
    deadline = time.monotonic() + BACK_TIMEOUT_S
    while time.monotonic() < deadline and (
        connections_to(broker.binary_port) > before.connections
        or connections_to(broker.web_port) > before.web_connections
    ):
        time.sleep(0.05)


def delete_namespace(broker: Broker, name: str) -> None:
    """Delete a namespace with all that is in it, and topics of the default namespace that false names made.

    Commands that a client sent before it left may still be waiting for their turn, and make a topic again.
    """
    broker.rest.post(f"namespaces/{name}/replication", [broker.cluster])

    def is_deleted() -> bool:
        _delete_topics(broker, name)
        _delete_topics(broker, "public/default", but=KEPT_TOPIC)
        return broker.rest.request("DELETE", f"namespaces/{name}").status_code != HTTPStatus.CONFLICT

    wait_until(is_deleted, BACK_TIMEOUT_S, what=f"{name} deleted", interval_s=1.0)


def _delete_topics(broker: Broker, namespace: str, but: str = "") -> None:
    with Rest(broker.admin_url) as rest:
        for topic in rest.get(f"persistent/{namespace}/partitioned"):
            rest.delete(f"{topic_path(topic)}/partitions?force=true")
        domains = ("persistent", "non-persistent")
        topics = [topic for domain in domains for topic in rest.get(f"{domain}/{namespace}") if topic != but]
        with ThreadPoolExecutor(DELETIONS_AT_ONCE) as pool:
            list(pool.map(lambda topic: rest.delete(f"{topic_path(topic)}?force=true"), topics))


def state_afterwards(broker: Broker, before: State) -> State:
    """Return what the broker holds once that is no more than before, or when the time for it is over."""
    deadline = time.monotonic() + BACK_TIMEOUT_S
    while True:
        state = read_state(broker)
        is_back = not state.left_behind(before) and state.resident_bytes < before.resident_bytes + MEMORY_SLACK_BYTES
        if is_back or time.monotonic() > deadline:
            return state
        time.sleep(0.5)


def watch_peak(broker: Broker) -> None:
    """Measure the peak of the memory from now on."""
    reset_peak(broker.pid)


def peak(broker: Broker) -> int:
    """Return the peak since ``watch_peak``, in bytes."""
    return peak_resident_bytes(broker.pid)


def _value(metrics: str, name: str) -> int:
    match = re.search(rf"^{name}\{{[^}}]*\}} (\S+)", metrics, re.MULTILINE)
    assert match is not None, f"no metric {name}"
    return int(float(match[1]))


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]
