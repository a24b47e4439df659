"""Catch-up of a backlog over links: clusters on this machine; the pipeline starts when the backlog is complete.

The backlog of one topic has messages of 1 KiB, in batches of 128 KiB, as the official client writes them by default, or
each in an entry of its own. Receipts follow the sync, in all clusters. Figures of a run:

* seconds from the start of the pipeline's process to the first entry in a target;
* entries and bytes per second of each target, from its first entry to its last one;
* processor time per entry of each process, in that time. It shows what limits the rate.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.frames import PRODUCER_ID, PRODUCER_NAME, payload
from bench.load import Publisher
from magnetar.wire.entries.batch import BatchedMessage, encode_batch
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.geo.helpers import entries
from tests.kit.clusters import NAMES, LocalClusters
from tests.kit.measure import describe_machine
from tests.kit.processes import command_line, descendants, own_cpu_seconds

NAMESPACE = "bench/links"
TOPIC = f"persistent://{NAMESPACE}/backlog"
SIZE = 1024
PER_BATCH = 127
"""Messages in a batch of the official client, which ends before 128 KiB."""

WINDOW = 64
"""Entries without a receipt while the backlog is published."""

QUICK = 5
"""Divisor of the backlogs of a quick run."""

POLL_S = 0.05
TIMEOUT_S = 300.0


@dataclass
class Catching:
    """The progress of one target."""

    first_at: float = 0.0
    last_at: float = 0.0
    count_at_first: int = 0
    count: int = 0


@dataclass
class Outcome:
    """The figures of a run."""

    targets: int
    batched: bool
    entries: int
    entry_bytes: int
    first_s: float
    rates: dict[str, float]
    """Entries per second, by target."""

    cpu_us: dict[str, float] = field(default_factory=dict)
    """Microseconds of processor time per entry, by process."""

    def to_json(self) -> dict[str, object]:
        """Return the figures."""
        return {
            "targets": self.targets,
            "batched": self.batched,
            "entries": self.entries,
            "firstSeconds": round(self.first_s, 2),
            "entriesPerSecond": {name: round(rate) for name, rate in self.rates.items()},
            "megabytesPerSecond": {name: round(rate * self.entry_bytes / 1e6, 1) for name, rate in self.rates.items()},
            "cpuMicrosecondsPerEntry": {name: round(us, 1) for name, us in self.cpu_us.items()},
        }


def frames(count: int, *, batched: bool) -> list[bytes]:
    """Return SENDs of ``count`` entries, which share their payload."""
    content, now = payload(SIZE), time.time_ns() // 1_000_000
    if batched:
        message = BatchedMessage(pb.SingleMessageMetadata(), content)
        content = encode_batch([message] * PER_BATCH)
    found = []
    for number in range(count):
        metadata = pb.MessageMetadata(producer_name=PRODUCER_NAME, publish_time=now, sequence_id=number)
        if batched:
            metadata.num_messages_in_batch = PER_BATCH
        send = pb.CommandSend(producer_id=PRODUCER_ID, sequence_id=number, num_messages=PER_BATCH if batched else 1)
        found.append(
            encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send), build_entry(metadata, content))
        )
    return found


def publish(clusters: LocalClusters, count: int, *, batched: bool) -> None:
    """Publish the backlog in parts, because all frames together may not fit into memory."""
    publisher = Publisher(clusters.members[NAMES[0]].service_url, TOPIC, WINDOW if batched else 16 * WINDOW)
    try:
        publisher.publish(frames(count, batched=batched))
    finally:
        publisher.close()


def roles(clusters: LocalClusters) -> dict[int, str]:
    """Return the roles of all processes that carry entries, by process id."""
    found = {broker.pid: f"broker {name}" for name, broker in clusters.brokers.items()}
    for pid in descendants(clusters.pipeline_pid):
        found[pid] = "virtual machine" if "java" in command_line(pid).partition(" ")[0] else "workers"
    return found


def spent(pids: dict[int, str]) -> dict[str, float]:
    """Return the processor seconds so far, by role."""
    totals: dict[str, float] = {}
    for pid, role in pids.items():
        totals[role] = totals.get(role, 0.0) + own_cpu_seconds(pid)
    return totals


def catch_up(
    clusters: LocalClusters, targets: tuple[str, ...], count: int
) -> tuple[float, dict[str, Catching], dict[str, float]]:
    """Start the pipeline; return its time, the progress of each target, and the processor seconds."""
    started = time.monotonic()
    clusters.start_pipeline()
    progress = {name: Catching() for name in targets}
    pids: dict[int, str] = {}
    before: dict[str, float] = {}
    while any(each.count < count for each in progress.values()):
        for name, each in progress.items():
            if each.count >= count:
                continue
            each.count = entries(clusters, name, TOPIC)
            each.last_at = time.monotonic()
            if each.count and not each.first_at:
                each.first_at, each.count_at_first = each.last_at, each.count
                pids = pids or roles(clusters)
                before = before or spent(pids)
        if time.monotonic() > started + TIMEOUT_S:
            text = f"{count} entries are not in all clusters after {TIMEOUT_S:g} s: {progress}"
            raise TimeoutError(text)
        time.sleep(POLL_S)
    after = spent(pids)
    return started, progress, {role: seconds - before[role] for role, seconds in after.items()}


def run(directory: Path, targets: int, megabytes: int, *, batched: bool) -> Outcome:
    """Measure one combination."""
    names = NAMES[: targets + 1]
    entry_bytes = (PER_BATCH if batched else 1) * SIZE
    count = megabytes * 1_000_000 // entry_bytes
    shutil.rmtree(directory, ignore_errors=True)
    keep = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}
    with LocalClusters(directory, names, keep) as clusters:
        clusters.make_namespace(NAMESPACE, names)
        publish(clusters, count, batched=batched)
        started, progress, cpu = catch_up(clusters, names[1:], count)
        clusters.stop_pipeline()
    shutil.rmtree(directory, ignore_errors=True)
    rates = {
        name: (each.count - each.count_at_first) / (each.last_at - each.first_at) for name, each in progress.items()
    }
    carried = sum(each.count - each.count_at_first for each in progress.values())
    return Outcome(
        targets,
        batched,
        count,
        entry_bytes,
        min(each.first_at for each in progress.values()) - started,
        rates,
        {role: seconds / carried * 1e6 for role, seconds in sorted(cpu.items(), key=lambda item: -item[1])},
    )


def main() -> None:
    """Measure the combinations, print a table, and write one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the backlogs")
    parser.add_argument("--megabytes", type=int, default=1_000, help="payload of the backlog in batches")
    parser.add_argument("--unbatched-megabytes", type=int, default=600)
    parser.add_argument("--only", choices=["batches-1", "batches-2", "unbatched-1", "unbatched-2"])
    parser.add_argument("--directory", type=Path, default=Path("build/bench/catch-up"))
    options = parser.parse_args()
    console = Console(stderr=True)
    outcomes = []
    for batched, targets in ((True, 1), (True, 2), (False, 1), (False, 2)):
        name = f"{'batches' if batched else 'unbatched'}-{targets}"
        if options.only in {None, name}:
            megabytes = options.megabytes if batched else options.unbatched_megabytes
            megabytes //= QUICK if options.quick else 1
            outcomes.append(run(options.directory, targets, megabytes, batched=batched))
            console.print_json(data=outcomes[-1].to_json())
    table = Table(title="Catch-up of one topic, messages of 1 KiB, receipts after the sync")
    for heading in ("entries", "targets", "first entry, s", "MB/s to each", "entries/s to each"):
        table.add_column(heading, justify="right")
    for each in outcomes:
        found = each.to_json()
        rates, per_second = found["megabytesPerSecond"], found["entriesPerSecond"]
        assert isinstance(rates, dict)
        assert isinstance(per_second, dict)
        table.add_row(
            "batches of 128 KiB" if each.batched else "1 KiB",
            str(each.targets),
            f"{each.first_s:.1f}",
            ", ".join(map(str, rates.values())),
            ", ".join(f"{rate:,}" for rate in per_second.values()),
        )
    Console().print(table)
    figures = {"machine": describe_machine(options.directory.parent), "runs": [each.to_json() for each in outcomes]}
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
