"""The duration of turns of the broker's event loop with many topics, and the effects on clients.

One broker process, the official protocol, and a real disk; each receipt follows an fdatasync:

* *turns*: the longest turn of the event loop during work on many topics. Each topic has a producer, a consumer and some
  small entries. Time that the loop waited for a processor, because other processes or others on the host used them, is
  not counted. The measured duration is up to 2 ms too short (``bench/watched_broker.py``). The column "processor" has
  the most time of any turn on a processor: less than the turn if it waited for the interpreter lock;
* *publishing beside creations* on a disk with 50 ms per sync, including the metadata store: milliseconds from the due
  time of an entry to its receipt, in one topic, while others are created;
* *start*: from the start of the process until it is healthy, with many topics on disk, each with a subscription and an
  entry; after an orderly stop and after ``kill -9``.

Requires only Magnetar, and a C compiler for the slow disk.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.frames import publish_frames
from bench.load import Publisher
from bench.many_topics import ManyTopics
from bench.options import parse
from bench.watched_broker import WatchedBroker
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.broker import Broker
from tests.kit.lossy_disk import LossyDisk, NoCompilerError, build_library
from tests.kit.measure import describe_machine, percentiles
from tests.kit.processes import resident_bytes
from tests.kit.raw import RawConnection
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.watched_broker import Turn

TURN_MAX_S = 0.02
"""Target for the duration of a turn, in seconds."""

ROUND_S = 10
"""Interval between two runs of each kind of maintenance, in seconds."""

SETTINGS = {
    "keepAliveIntervalSeconds": 3600,
    "managedLedgerMaxEntriesPerLedger": 2,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "retentionCheckIntervalInSeconds": ROUND_S,
    "messageExpiryCheckIntervalInMinutes": ROUND_S / 60,
    "backlogQuotaCheckIntervalInSeconds": ROUND_S,
    "brokerDeduplicationSnapshotFrequencyInSeconds": ROUND_S,
    "brokerUnloadInactiveTopicsFrequencySeconds": ROUND_S,
}
"""The third entry of a topic begins its second ledger. Waiting clients answer no PING."""

NAMESPACE = "public/default"
ELSEWHERE = "elsewhere"
AFTERMATH_S = 1.0
"""Seconds after a phase that count for it."""

SYNC_S = 0.05
PUBLISH_RATE = 20
"""Entries per second beside the creations."""

START_TIMEOUT_S = 600.0
TOPICS_PER_CONNECTION = 10_000
MEGABYTE = 1_000_000

MAKING_MB = 8_192
"""``memoryLimitMB`` of the broker that makes the topics on disk; it keeps all of them loaded."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers of topics."""

    topics: int
    created: int
    """On the slow disk."""
    on_disk: int


FULL = Scale(topics=10_000, created=1_000, on_disk=100_000)
QUICK = Scale(topics=1_000, created=100, on_disk=5_000)


@dataclass(frozen=True, slots=True)
class Phase:
    """The event loop during one kind of work."""

    name: str
    seconds: float
    longest_ms: float
    """Duration of the longest turn, without waiting for a processor."""
    waited_ms: float
    """Time of waiting for a processor in that turn."""
    processor_ms: float
    """Most time of any turn on a processor."""
    too_long: int
    """Number of turns above TURN_MAX_S, without waiting for a processor."""
    where: str
    """The code location of the loop in the longest turn."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start with many topics on disk."""

    after: str
    seconds: float
    resident_mb: float


class Phases:
    """Runs the phases of one broker, and assigns turns to them."""

    def __init__(self, broker: WatchedBroker, told: Callable[[str], None]) -> None:
        """Begin without phases; ``told`` is called with the name of each phase at its beginning."""
        self._broker = broker
        self._told = told
        self._times: list[tuple[str, float, float, float]] = []

    def run(self, name: str, work: Callable[[], object]) -> None:
        """Run a phase."""
        self._told(name)
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        time.sleep(AFTERMATH_S)
        self._times.append((name, seconds, began, time.monotonic()))

    def found(self) -> list[Phase]:
        """Return the figures of all phases."""
        turns = self._broker.turns()
        return [longest_turn(name, seconds, turns, began, ended) for name, seconds, began, ended in self._times]


def longest_turn(name: str, seconds: float, turns: Sequence[Turn], began: float, ended: float) -> Phase:
    """Return the figures of a phase from the turns that ended from ``began``, inclusive, to ``ended``, exclusive."""
    found = [(turn.seconds - turn.waited_s, turn) for turn in turns if began <= turn.at_s < ended]
    if not found:
        return Phase(name, round(seconds, 2), 0.0, 0.0, 0.0, 0, "")
    too_long = sum(busy_s > TURN_MAX_S for busy_s, _ in found)
    busy_s, longest = max(found, key=lambda each: each[0])
    waited_ms = round(longest.waited_s * 1000, 1)
    processor_ms = round(max(turn.processor_s for _, turn in found) * 1000, 1)
    return Phase(name, round(seconds, 2), round(busy_s * 1000, 1), waited_ms, processor_ms, too_long, longest.where)


def turns(directory: Path, count: int, told: Callable[[str], None]) -> list[Phase]:
    """Run all phases with ``count`` topics."""
    with WatchedBroker(directory, settings=SETTINGS) as broker, ManyTopics(broker.service_url) as topics:
        phases = Phases(broker, told)
        phases.run("creation: producers", lambda: topics.grow(count))
        phases.run("first entries", topics.publish)
        phases.run("creation: subscriptions", topics.subscribe)
        phases.run("second entries", topics.publish)
        phases.run("rollover of all", topics.publish)
        policies = f"namespaces/{NAMESPACE}"
        phases.run("policy change for all", lambda: _follow(broker, f"{policies}/messageTTL", 1))
        phases.run("maintenance", lambda: time.sleep(2.5 * ROUND_S))
        phases.run("metrics", broker.rest.metrics)
        phases.run("lists of topics", lambda: _list(broker))
        phases.run("policy change for one", lambda: _follow(broker, f"{_path(0)}/messageTTL?messageTTL=60"))
        broker.rest.ensure(f"clusters/{ELSEWHERE}", {"serviceUrl": broker.admin_url})
        tenant = {"adminRoles": [], "allowedClusters": [broker.cluster, ELSEWHERE]}
        broker.rest.post("tenants/public", tenant)
        phases.run("unload of all", lambda: _follow(broker, f"{policies}/replication", [ELSEWHERE]))
        broker.rest.post(f"{policies}/replication", [broker.cluster])
        time.sleep(AFTERMATH_S)
        with ManyTopics(broker.service_url) as again:
            phases.run("load of all", lambda: again.grow(count))
            phases.run("all clients leave", again.close)
        again = ManyTopics(broker.service_url)
        again.grow(count)
        phases.run("orderly stop", broker.stop)
        again.close()
        return phases.found()


def _path(number: int) -> str:
    return f"persistent/{NAMESPACE}/bench-{number}"


def _follow(broker: Broker, path: str, body: object = None) -> None:
    """Change a policy, and wait until the broker is idle."""
    broker.rest.post(path, body)
    _settle(broker)


def _settle(broker: Broker) -> None:
    """Wait until the broker answers five REST requests in a row without delay."""
    quick, needed = 0, 5

    def is_quiet() -> bool:
        nonlocal quick
        began = time.monotonic()
        broker.rest.is_healthy()
        quick = quick + 1 if time.monotonic() - began < AFTERMATH_S / 100 else 0
        return quick >= needed

    wait_until(is_quiet, START_TIMEOUT_S, what="the broker is quiet", interval_s=0.1)


def _list(broker: Broker) -> None:
    """List the topics of the namespace: by REST, and by the protocol, with and without a pattern."""
    broker.rest.get(f"persistent/{NAMESPACE}")
    broker.rest.get(f"namespaces/{NAMESPACE}/topics")
    with RawConnection.connected(broker.service_url) as raw:
        for pattern in ({}, {"topics_pattern": f"{NAMESPACE}/bench-.*7"}):
            mode = pb.CommandGetTopicsOfNamespace.PERSISTENT
            raw.request(
                "GET_TOPICS_OF_NAMESPACE",
                "GET_TOPICS_OF_NAMESPACE_RESPONSE",
                namespace=NAMESPACE,
                mode=mode,
                **pattern,
            )


def publishing(directory: Path, created: int, told: Callable[[str], None]) -> dict[str, dict[str, float]]:
    """Publish on a slow disk, alone and during the creation of ``created`` topics; return the milliseconds of each."""
    library = build_library(directory)
    disk = LossyDisk(directory / "broker" / "data", directory / "disk", library, random.Random(1), sync_s=SYNC_S)
    broker = Broker(directory / "broker")
    broker.environment.update(disk.environment)
    with broker:
        publisher = Publisher(broker.service_url, "persistent://public/default/publishing", PUBLISH_RATE)
        told("publishing alone, on a slow disk")
        alone = publisher.publish_paced(_frames(PUBLISH_RATE * 5), PUBLISH_RATE)
        told(f"publishing while {created:,} topics are created, on a slow disk")
        with ManyTopics(broker.service_url) as topics:
            creating = Thread(target=topics.grow, args=(created,), daemon=True)
            creating.start()
            beside: list[float] = []
            while creating.is_alive():
                beside += publisher.publish_paced(_frames(PUBLISH_RATE), PUBLISH_RATE)
            creating.join()
            assert topics.count == created, "the creation failed"
        publisher.close()
    return {"alone": percentiles(alone), f"while {created:,} topics are created": percentiles(beside)}


def _frames(count: int) -> list[bytes]:
    return publish_frames(count, 100, time.time_ns() // 1_000_000)


def starts(directory: Path, count: int, told: Callable[[str], None]) -> list[Start]:
    """Measure starts with ``count`` topics on disk, with the default settings."""
    broker = Broker(directory, settings={"memoryLimitMB": MAKING_MB})
    broker.start()
    try:
        for first in range(0, count, TOPICS_PER_CONNECTION):
            told(f"making topics on disk: {first:,} of {count:,}")
            with ManyTopics(broker.service_url, f"persistent://public/default/disk-{first}") as topics:
                topics.grow(min(TOPICS_PER_CONNECTION, count - first))
                topics.publish()
                topics.subscribe()
        told("stopping")
    finally:
        broker.stop()
        broker.rest.close()
    return [_start(directory, after, count, told) for after in ("an orderly stop", "kill -9")]


def _start(directory: Path, after: str, count: int, told: Callable[[str], None]) -> Start:
    """Start the broker, wait until it is healthy, and kill it."""
    told(f"starting with {count:,} topics on disk, after {after}")
    broker = Broker(directory)
    began = time.monotonic()
    broker.launch()
    try:
        wait_until(broker.rest.is_healthy, START_TIMEOUT_S, what="healthy")
        seconds = time.monotonic() - began
        time.sleep(AFTERMATH_S)
        return Start(after, round(seconds, 2), round(resident_bytes(broker.pid) / MEGABYTE, 1))
    finally:
        broker.kill()
        broker.rest.close()


def measure(directory: Path, scale: Scale, told: Callable[[str], None]) -> dict[str, Any]:
    """Run all measurements; return the figures as JSON values."""
    try:
        latencies = publishing(directory / "slow", scale.created, told)
    except NoCompilerError as error:
        latencies = {}
        sys.stderr.write(f"not measured: publishing on a slow disk: {error}\n")
    return {
        "topics": scale.topics,
        "turns": [asdict(phase) for phase in turns(directory / "turns", scale.topics, told)],
        "publishing_ms": latencies,
        "on_disk": scale.on_disk,
        "starts": [asdict(start) for start in starts(directory / "starts", scale.on_disk, told)],
    }


def tables(found: dict[str, Any]) -> list[Table]:
    """Return the figures as tables."""
    turns_table = _table(
        f"turns of the event loop, {found['topics']:,} topics",
        (
            "phase",
            "took",
            "longest turn",
            f"over {TURN_MAX_S * 1000:.0f} ms",
            "waited",
            "processor",
            "seen in the longest turn",
        ),
    )
    for phase in (Phase(**each) for each in found["turns"]):
        longest, waited, processor = (
            f"{each:.0f} ms" for each in (phase.longest_ms, phase.waited_ms, phase.processor_ms)
        )
        where = phase.where.partition(" < ")[0].removeprefix("magnetar.")
        turns_table.add_row(
            phase.name, f"{phase.seconds:.1f} s", longest, str(phase.too_long), waited, processor, where
        )
    latency = _table(
        f"publishing, {PUBLISH_RATE} entries/s, each sync {SYNC_S * 1000:.0f} ms: due to receipt",
        ("", "p50", "p90", "p99", "max"),
    )
    for name, values in found["publishing_ms"].items():
        latency.add_row(name, *(f"{values[point]:,.0f} ms" for point in ("p50", "p90", "p99", "max")))
    start_table = _table(f"start with {found['on_disk']:,} topics on disk", ("after", "healthy", "resident memory"))
    for start in (Start(**each) for each in found["starts"]):
        start_table.add_row(start.after, f"{start.seconds:.1f} s", f"{start.resident_mb:,.0f} MB")
    return [turns_table, latency, start_table]


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(*columns, title=title, title_justify="left")
    for column in table.columns[1:6]:
        column.justify = "right"
    return table


def main() -> int:
    """Measure and print."""
    options = parse("loop_turns", __doc__, quick="a tenth of the topics, a twentieth on disk")
    machine = describe_machine(options.directory)
    console = Console(stderr=True)
    progress = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    )
    with progress:
        task = progress.add_task("")
        for name in ("slow", "turns", "starts"):
            (options.directory / name).mkdir()

        def told(what: str) -> None:
            progress.update(task, description=what)
            if not console.is_terminal:
                sys.stderr.write(json.dumps({"event": "measuring", "what": what}) + "\n")

        found = {"machine": machine, **measure(options.directory, QUICK if options.quick else FULL, told)}
    shutil.rmtree(options.directory)
    if options.output == "json":
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return 0
    for table in tables(found):
        Console(width=130).print(table)
    said = ", ".join(f"{key} {value}" for key, value in machine.items())
    Console(width=118).print(
        f"Each receipt follows an fdatasync (journalSyncData=true). Machine: {said}.", highlight=False
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
