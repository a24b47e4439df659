"""Cost of idle topics for links: three clusters on this machine, N topics, all idle except one with 200 messages/s.

All topics are replicated between the three clusters, and each has an entry. Figures for each number of topics:

* seconds until all entries are in all clusters, from the start of the pipeline;
* processor time of the pipeline in percent of a core, and its memory (PSS), while all topics are idle;
* the same under load, over the given number of hand-overs, and the latency of the busy topic, from the time right
  before its producer sends a message to the return of ``receive`` in another cluster.

Messages have 1 KB and are not batched; receipts follow the sync.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.end_to_end import Load, Samples, consume, produce
from bench.many_topics import ManyTopics
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.measure import describe_machine, percentiles
from tests.kit.processes import cpu_seconds, descendants, pss_bytes
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

NAMESPACE = "bench/idle"
PREFIX = f"persistent://{NAMESPACE}/t"
BUSY = f"{PREFIX}-busy"
SIZE = 1000
SETTLE_S = 15.0
"""Seconds between the arrival of the last entry and the first measurement: links rest meanwhile."""

IDLE_S = 60.0
TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Cost:
    """Cost of the pipeline in some time."""

    core_percent: float
    pss_mb: float


@dataclass(frozen=True)
class Outcome:
    """The figures of one number of topics."""

    topics: int
    filled_s: float
    idle: Cost
    busy: Cost
    latency_ms: dict[str, float]
    """p50, p99 and maximum of the busy topic, and the number of its messages that are missing or repeated."""


def pipeline_cost(clusters: LocalClusters, started: tuple[float, float]) -> Cost:
    """Return the cost since ``started``: a time, and the processor seconds at that time."""
    now, spent = mark(clusters)
    processes = [clusters.pipeline_pid, *descendants(clusters.pipeline_pid)]
    percent = 100 * (spent - started[1]) / (now - started[0])
    return Cost(round(percent, 1), round(sum(map(pss_bytes, processes)) / 1e6))


def mark(clusters: LocalClusters) -> tuple[float, float]:
    """Return the time, and the processor seconds of the pipeline."""
    return time.monotonic(), cpu_seconds(clusters.pipeline_pid)


def has_backlog(clusters: LocalClusters) -> bool:
    """Return whether a link has not confirmed all entries; its backlog has no sample while it is unknown."""
    for name in NAMES:
        found = [
            float(line.rpartition(" ")[2])
            for line in clusters.rest(name).metrics().splitlines()
            if line.startswith("pulsar_replication_backlog") and NAMESPACE in line
        ]
        if len(found) != len(NAMES) - 1 or any(found):
            return True
    return False


class BusyTopic:
    """Load on one topic, from a process of its own to a consumer in another cluster."""

    def __init__(self, clusters: LocalClusters, rate: float, seconds: float) -> None:
        """Start the consumer; one message has passed through the link afterwards."""
        self._urls = [clusters.members[name].service_url for name in NAMES[:2]]
        self._load = Load(BUSY, rate, seconds, SIZE)
        self._context = multiprocessing.get_context("spawn")
        self._results: multiprocessing.Queue[Samples] = self._context.Queue()
        ready = self._context.Event()
        self._start(consume, NAMES[1], self._urls[1], self._load, ready)
        if not ready.wait(TIMEOUT_S):
            message = f"no consumer of {BUSY} within {TIMEOUT_S:g} s"
            raise TimeoutError(message)

    def run(self) -> dict[str, float]:
        """Publish; return percentiles of the latency in milliseconds, and what was lost or repeated."""
        self._start(produce, self._urls[0], self._load)
        found = {each["role"]: each for each in (self._results.get(timeout=TIMEOUT_S) for _ in range(2))}
        received = found[NAMES[1]]
        latency = percentiles(received["ms"])
        figures = {name: round(latency[name], 1) for name in ("p50", "p99", "max")}
        return figures | {name: received[name] for name in ("missing", "repeated")}

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        self._context.Process(target=target, args=(*arguments, self._results), daemon=True).start()


def run(directory: Path, topics: int, rate: float, handovers: int, lease_s: float) -> Outcome:
    """Measure one number of topics."""
    shutil.rmtree(directory, ignore_errors=True)
    settings = {"defaultRetentionTimeInMinutes": -1, "exposeTopicLevelMetricsInPrometheus": False}
    with LocalClusters(directory, NAMES, settings) as clusters:
        clusters.make_namespace(NAMESPACE, NAMES)
        for name in NAMES:
            with ManyTopics(clusters.members[name].service_url, PREFIX) as idle:
                idle.grow(topics)
                idle.publish()
        started = time.monotonic()
        clusters.start_pipeline("--lease-seconds", str(lease_s))
        wait_until(lambda: not has_backlog(clusters), TIMEOUT_S, what="all entries everywhere", interval_s=1.0)
        filled_s = time.monotonic() - started
        time.sleep(SETTLE_S)
        before = mark(clusters)
        time.sleep(max(IDLE_S, 2 * lease_s))
        idle_cost = pipeline_cost(clusters, before)
        busy = BusyTopic(clusters, rate, handovers * lease_s)
        before = mark(clusters)
        latency = busy.run()
        busy_cost = pipeline_cost(clusters, before)
        clusters.stop_pipeline()
    shutil.rmtree(directory, ignore_errors=True)
    return Outcome(topics, round(filled_s, 1), idle_cost, busy_cost, latency)


def table(outcomes: Sequence[Outcome], rate: float) -> Table:
    """Return the figures as a table."""
    drawn = Table(title=f"Pipeline of three clusters, one topic with {rate:g} messages/s of 1 KB, the others idle")
    costs = ("idle: % of a core", "MB", "busy: % of a core", "MB")
    for heading in ("topics", "filled, s", *costs, "p50", "p99", "max, ms", "missing", "repeated"):
        drawn.add_column(heading, justify="right")
    for each in outcomes:
        spent = each.idle.core_percent, each.idle.pss_mb, each.busy.core_percent, each.busy.pss_mb
        drawn.add_row(f"{each.topics:,}", *map(str, (each.filled_s, *spent, *each.latency_ms.values())))
    return drawn


def main() -> None:
    """Measure each number of topics, print a table, and write one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few topics and two short hand-overs")
    parser.add_argument("--topics", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--handovers", type=int, default=10)
    parser.add_argument("--lease-seconds", type=float, default=60.0)
    parser.add_argument("--directory", type=Path, default=Path("build/bench/idle-topics"))
    options = parser.parse_args()
    if options.quick:
        options.topics, options.handovers, options.lease_seconds = [10, 500], 2, 15.0
    console, outcomes = Console(stderr=True), list[Outcome]()
    for topics in options.topics:
        outcomes.append(run(options.directory, topics, options.rate, options.handovers, options.lease_seconds))
        console.print_json(data=asdict(outcomes[-1]))
    Console().print(table(outcomes, options.rate))
    figures = {"machine": describe_machine(options.directory.parent), "runs": [asdict(each) for each in outcomes]}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
