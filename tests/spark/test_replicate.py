"""Replication on a real Spark between fake clusters with faults."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from magnetar.pipeline.leases import TURNS
from tests.kit.wait import holds_for, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.spark.conftest import Running
    from tests.spark.fake_cluster import FakeCluster

    Clusters = dict[str, FakeCluster]
    Arrives = Callable[..., None]

pytestmark = pytest.mark.timeout(240)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%08d" % number for number in range(start, start + count)]


def test_an_entry_reaches_every_other_cluster(clusters: Clusters, arrives: Arrives, topic: str) -> None:
    clusters["ewr"].publish(topic, [b"hello"])
    arrives("jfk", topic, [b"hello"])
    arrives("lga", topic, [b"hello"])


def test_each_cluster_sends_its_own_entries_only(clusters: Clusters, arrives: Arrives, topic: str) -> None:
    for name, cluster in clusters.items():
        cluster.publish(topic, [name.encode()])
    wait_until(lambda: all(len(cluster.payloads(topic)) == 2 for cluster in clusters.values()))
    assert holds_for(lambda: all(len(cluster.payloads(topic)) == 2 for cluster in clusters.values()), 1.0)
    assert set(clusters["lga"].payloads(topic)) == {b"ewr", b"jfk"}


def test_every_entry_arrives_once_and_in_order_across_hand_overs(
    clusters: Clusters, arrives: Arrives, topic: str
) -> None:
    before = clusters["ewr"].topic(topic)
    sent: list[bytes] = []
    leases: set[int] = set()
    while len(leases) < 4:
        more = numbered(5, len(sent))
        sent += more
        clusters["ewr"].publish(topic, more)
        if "jfk" in before.cursors:
            leases.add(before.cursors["jfk"].lease)
        time.sleep(0.02)
    arrives("jfk", topic, sent)
    arrives("lga", topic, sent)


def test_a_backlog_with_entries_of_all_sizes_is_caught_up_with(
    clusters: Clusters, arrives: Arrives, topic: str
) -> None:
    sizes = [100] * 5_000 + [300_000] * 20 + [3_000_000] + [10] * 1_000
    payloads = [b"%08d" % number + bytes(size) for number, size in enumerate(sizes)]
    clusters["jfk"].publish(topic, payloads)
    arrives("ewr", topic, payloads)
    acknowledged = clusters["jfk"].topic(topic).cursors["ewr"]
    wait_until(lambda: acknowledged.acknowledged == len(payloads), what="the replication cursor to advance")


def test_a_refused_topic_waits_without_holding_up_another(
    clusters: Clusters, replication: Running, arrives: Arrives, topic: str
) -> None:
    refused = f"{topic}-refused"
    clusters["jfk"].refusing.add(refused)
    clusters["ewr"].publish(refused, numbered(100))
    for number in range(20):
        clusters["ewr"].publish(topic, [b"%d" % number])
    arrives("jfk", topic, [b"%d" % number for number in range(20)], timeout_s=20)

    def told() -> bool:
        progress = replication.last_progress()
        return progress is not None and any(refused in name for task in progress.tasks for name in task.parked)

    wait_until(told, what="the parked topic to be reported")
    assert clusters["jfk"].payloads(refused) == []
    clusters["jfk"].refusing.discard(refused)
    arrives("jfk", refused, numbered(100))


def test_a_topic_without_receipts_is_parked_and_taken_up_again(
    clusters: Clusters, arrives: Arrives, topic: str
) -> None:
    silent = f"{topic}-silent"
    clusters["jfk"].mute.add(silent)
    clusters["ewr"].publish(silent, numbered(1_000))
    clusters["ewr"].publish(topic, numbered(50))
    arrives("jfk", topic, numbered(50), timeout_s=20)
    clusters["jfk"].mute.discard(silent)
    arrives("jfk", silent, numbered(1_000))


def test_a_gap_sends_the_source_back(clusters: Clusters, arrives: Arrives, topic: str) -> None:
    clusters["ewr"].publish(topic, numbered(10))
    arrives("jfk", topic, numbered(10))

    def lose_half() -> None:
        held = clusters["jfk"].topic(topic)
        del held.arrived[5:]
        held.last["ewr"] = held.arrived[-1][0].position

    clusters["jfk"].call(lose_half)
    clusters["ewr"].publish(topic, numbered(1, 10))
    arrives("jfk", topic, numbered(11))


def test_a_target_that_was_down_gets_everything(clusters: Clusters, arrives: Arrives, topic: str) -> None:
    clusters["ewr"].publish(topic, numbered(10))
    arrives("lga", topic, numbered(10))
    clusters["lga"].stop()
    clusters["ewr"].publish(topic, numbered(500, 10))
    arrives("jfk", topic, numbered(510))
    clusters["lga"].start()
    arrives("lga", topic, numbered(510))


def test_a_source_that_was_down_is_taken_up_again(clusters: Clusters, arrives: Arrives, topic: str) -> None:
    clusters["lga"].publish(topic, numbered(10))
    arrives("ewr", topic, numbered(10))
    clusters["lga"].stop()
    other = f"{topic}-other"
    clusters["jfk"].publish(other, numbered(10))
    arrives("ewr", other, numbered(10), timeout_s=20)
    clusters["lga"].publish(topic, numbered(10, 10))
    clusters["lga"].start()
    arrives("ewr", topic, numbered(20))


def test_killed_workers_lose_and_repeat_nothing(clusters: Clusters, arrives: Arrives, topic: str) -> None:
    sent: list[bytes] = []
    for round_number in range(3):
        more = numbered(100, len(sent))
        sent += more
        clusters["ewr"].publish(topic, more)
        for pid in workers()[round_number::3]:
            os.kill(pid, signal.SIGKILL)
    arrives("jfk", topic, sent, timeout_s=120)
    arrives("lga", topic, sent, timeout_s=120)


def workers() -> list[int]:
    """Return the Python workers: children of Spark's daemon below this process."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, check=True, text=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, *_ in rows}
    daemons = {int(pid) for pid, _, *args in rows if args and "pyspark.daemon" in args[0]}
    return [pid for pid in sorted(daemons) if parents[pid] in daemons and os.getpid() in ancestors(pid, parents)]


def ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found


@pytest.mark.usefixtures("replication")
def test_each_query_has_a_source_of_its_own() -> None:
    """Spark changes the environment of a source whenever a query starts; see ``source_named``."""
    session = SparkSession.builder.getOrCreate()
    sources = session._jsparkSession.sessionState().dataSourceManager()
    environments = [sources.lookupDataSource(f"magnetar-{turn}").dataSourceCls().envVars() for turn in range(TURNS)]
    assert session._jvm is not None
    assert len({session._jvm.java.lang.System.identityHashCode(each) for each in environments}) == TURNS
