"""``magnetar pipeline audit`` of one topic in two clusters, with known faults.

Both clusters have the same entries of 100 B, one message each. The log of the second one has faults at random places:
entries that are dropped, doubled, exchanged with their neighbours, or altered. Both have a replicated subscription
with individual acknowledgements, some of which only one cluster has. The audit must name exactly these. Spark runs with
``local[2]``, next to both brokers.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.frames import PRODUCER_ID, PRODUCER_NAME, payload
from bench.load import Publisher
from bench.options import parse
from magnetar.base.position import EARLIEST, Position
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.frame import encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.jobs.logs import acknowledge, audit_command
from tests.kit.broker import Broker
from tests.kit.forging_broker import ForgingBroker
from tests.kit.measure import describe_machine
from tests.kit.processes import descendants

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TOPIC = "persistent://public/default/audited"
SIZE = 100
FULL, QUICK = 10_000_000, 100_000
FAULTS = 10
"""Faults of each kind."""

WINDOW = 1_000
AT_ONCE = 50_000
ACKNOWLEDGED = 2_000
"""Individually acknowledged entries, beside those of the faults."""

SECONDS_MAX = 180
POLL_SECONDS = 0.5
KEPT = {"defaultRetentionTimeInMinutes": -1, "defaultRetentionSizeInMB": -1}


class Faults(NamedTuple):
    """The numbers of the entries with faults; none of them are neighbours."""

    dropped: Sequence[int]
    doubled: Sequence[int]
    exchanged: Sequence[int]
    """Each with the entry after it."""
    altered: Sequence[int]
    acknowledged_in_first: Sequence[int]
    acknowledged_in_second: Sequence[int]


def faults(count: int, chance: random.Random) -> Faults:
    """Choose the faults among ``count`` entries."""
    places = [4 * place for place in chance.sample(range(1, count // 4 - 1), 6 * FAULTS)]
    return Faults(*(places[first::6] for first in range(6)))


def entry(number: int, content: bytes) -> bytes:
    """Return an entry as its producer sends it."""
    metadata = pb.MessageMetadata(producer_name=PRODUCER_NAME, publish_time=1_700_000_000_000, sequence_id=number)
    return build_entry(metadata, content)


def copies(places: Sequence[Position], content: bytes, wrong: Faults) -> Iterator[bytes]:
    """Yield the log of the second cluster."""
    dropped, doubled, exchanged, altered = map(set, wrong[:4])
    held: bytes | None = None
    previous = EARLIEST
    for number, place in enumerate(places):
        own = entry(number, content[::-1] if number in altered else content)
        stamped, previous = stamp(own, Origin("ewr", place, previous)), place
        if number in dropped:
            continue
        if number in exchanged:
            held = stamped
            continue
        yield stamped
        if number in doubled:
            yield stamped
        if held is not None:
            yield held
            held = None


def publish(broker: Broker, entries: Iterable[bytes]) -> None:
    """Publish entries."""
    publisher = Publisher(broker.service_url, TOPIC, WINDOW)
    waiting: list[bytes] = []
    for number, each in enumerate(entries):
        send = pb.CommandSend(producer_id=PRODUCER_ID, sequence_id=number, num_messages=1)
        waiting.append(encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send), each))
        if len(waiting) == AT_ONCE:
            publisher.publish(waiting)
            waiting.clear()
    publisher.publish(waiting)
    publisher.close()


def positions(broker: Broker) -> list[Position]:
    """Return the positions of all entries of a log."""
    stats = broker.rest.get(f"{TOPIC.replace('://', '/')}/internalStats")
    return [Position(each["ledgerId"], number) for each in stats["ledgers"] for number in range(each["entries"])]


def acknowledge_all(clusters: dict[str, Broker], places: Sequence[Position], wrong: Faults) -> None:
    """Acknowledge some entries in both clusters, and those of the faults in one of them."""
    of_jfk = positions(clusters["jfk"])
    numbers = range(1, len(places), max(4, len(places) // ACKNOWLEDGED // 4 * 4))
    at = dict(zip(numbered(len(places), wrong), of_jfk, strict=True))
    acknowledge(clusters["ewr"], TOPIC, "s", [(places[each], 0) for each in (*numbers, *wrong.acknowledged_in_first)])
    acknowledge(clusters["jfk"], TOPIC, "s", [(at[each], 0) for each in (*numbers, *wrong.acknowledged_in_second)])


def numbered(count: int, wrong: Faults) -> Iterator[int]:
    """Yield the number of each entry in the log of the second cluster; -1 for the second of two."""
    dropped, doubled, exchanged = map(set, wrong[:3])
    held = None
    for number in range(count):
        if number in dropped:
            continue
        if number in exchanged:
            held = number
            continue
        yield number
        if number in doubled:
            yield -1
        if held is not None:
            yield held
            held = None


def expected(places: Sequence[Position], wrong: Faults) -> set[tuple[str, str, Position]]:
    """Return kind, cluster and origin position of all findings."""
    found = {("lost", "jfk", places[each]) for each in wrong.dropped}
    found |= {("repeated", "jfk", places[each]) for each in wrong.doubled}
    found |= {("reordered", "jfk", places[one]) for each in wrong.exchanged for one in (each, each + 1)}
    found |= {("altered", "jfk", places[each]) for each in wrong.altered}
    found |= {("unacknowledged", "jfk", places[each]) for each in wrong.acknowledged_in_first}
    return found | {("unacknowledged", "ewr", places[each]) for each in wrong.acknowledged_in_second}


def memory_mib(pid: int) -> float:
    """Return the memory of a process and its descendants; shared pages count once."""
    total = 0
    for each in (pid, *descendants(pid)):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text(encoding="ascii").splitlines()
        except OSError:  # it has ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def measure(clusters: dict[str, Broker], directory: Path) -> tuple[dict[str, Any], set[tuple[str, str, Position]]]:
    """Run the audit; return its figures and its findings."""
    table = directory / "findings"
    command = audit_command(clusters, "--topics", TOPIC, "--findings", str(table), work=directory)
    began, peak = time.monotonic(), 0.0
    with (
        (directory / "audit.log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process,
    ):
        while process.poll() is None:
            peak = max(peak, memory_mib(process.pid))
            time.sleep(POLL_SECONDS)
    figures = {"seconds": round(time.monotonic() - began, 1), "memory_mib": round(peak), "status": process.returncode}
    rows = pq.read_table(table).to_pylist()
    assert all(row["count"] == 1 for row in rows)
    found = {(row["kind"], row["cluster"], Position(row["origin_ledger"], row["origin_entry"])) for row in rows}
    return {**figures, "findings": len(rows)}, found


def main() -> int:
    """Measure and print; return 1 if the findings are not exactly the faults."""
    options = parse("audit", __doc__, quick="100,000 entries")
    machine = describe_machine(options.directory)
    count, content = QUICK if options.quick else FULL, payload(SIZE)
    wrong = faults(count, random.Random(1))
    directory = options.directory
    with Broker(directory / "ewr", "ewr", KEPT) as ewr, ForgingBroker(directory / "jfk", "jfk", KEPT) as jfk:
        clusters = {"ewr": ewr, "jfk": jfk}
        publish(ewr, (entry(number, content) for number in range(count)))
        places = positions(ewr)
        publish(jfk, copies(places, content, wrong))
        acknowledge_all(clusters, places, wrong)
        figures, found = measure(clusters, directory)
    wanted = expected(places, wrong)
    shutil.rmtree(directory)
    if options.output == "json":
        sys.stdout.write(json.dumps({"machine": machine, "entries": count, "faults": len(wanted), **figures}) + "\n")
    else:
        table = Table("entries per cluster", "seconds", "entries/s", "memory", "faults named", title="Audit")
        rate = f"{2 * count / figures['seconds']:,.0f}"
        named = f"{len(found & wanted)} of {len(wanted)}, {len(found - wanted)} others"
        table.add_row(f"{count:,}", f"{figures['seconds']:g}", rate, f"{figures['memory_mib']:,} MiB", named)
        Console(width=120).print(table)
        said = ", ".join(f"{key} {value}" for key, value in machine.items())
        Console(width=118).print(f"Target: {FULL:,} entries in {SECONDS_MAX} s. Machine: {said}.", highlight=False)
    return int(found != wanted)


if __name__ == "__main__":
    sys.exit(main())
