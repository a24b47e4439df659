"""The cost of individual acknowledgements with a growing number of holes: cursor and log, without the protocol.

One subscription with a backlog of 10,000,000 entries acknowledges random entries, ``ACKS_PER_FLUSH`` per flush, like a
broker that flushes every 10 ms. Each flush is one durable write. The figures of a line cover the acknowledgements since
the previous line:

* *acks/s* of wall time, and *CPU* of the process per acknowledgement, including the commit thread;
* *bytes*: size of all records per acknowledgement, including checkpoints; then that of checkpoints only. Every
  acknowledgement here creates or fills a hole;
* *largest delta*: bytes of the largest write that is not a checkpoint;
* *recovery*: time to open the cursor from the log, with the holes at that point.

The table goes to standard output, followed by one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.cursor.ranges import ranges_of
from magnetar.cursor.store import CursorStore, cursor_ledgers
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.metadata.memory import MemoryMetadataStore
from tests.kit.measure import describe_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.cursor.cursor import Cursor

BACKLOG = 10_000_000
ENTRIES_PER_LEDGER = 50_000
FIRST_LEDGER_ID = 1_000_000
ACKS_PER_FLUSH = 100
FLUSHES_IN_FLIGHT = 8
"""Flushes in flight: more gain nothing, fewer measure the disk's latency."""

FULL = (1_000, 10_000, 100_000, 1_000_000)
QUICK = FULL[:-1]
TOPIC = TopicName.parse("persistent://public/default/acks")


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one line."""

    acknowledged: int
    ranges: int
    acks_per_second: float
    cpu_us_per_ack: float
    bytes_per_ack: float
    checkpoint_bytes_per_ack: float
    largest_delta_bytes: int
    recovery_s: float


class Backlog:
    """The positions of a log whose ledgers have equal sizes."""

    def next_position(self, position: Position) -> Position:
        """See PositionSpace."""
        ledger_id, entry_id = position
        return Position(ledger_id, entry_id + 1) if entry_id + 1 < ENTRIES_PER_LEDGER else Position(ledger_id + 1, 0)

    def previous_position(self, position: Position) -> Position:
        """See PositionSpace."""
        ledger_id, entry_id = position
        return Position(ledger_id, entry_id - 1) if entry_id > 0 else Position(ledger_id - 1, ENTRIES_PER_LEDGER - 1)

    def count(self, after: Position, through: Position) -> int:
        """See PositionSpace."""
        return (through.ledger_id - after.ledger_id) * ENTRIES_PER_LEDGER + through.entry_id - after.entry_id


class Bench:
    """One cursor in a log on the disk."""

    def __init__(self, directory: Path) -> None:
        """Use the log in ``directory`` within a running loop."""
        self._loop = asyncio.get_running_loop()
        self.store = LocalLedgerStore(directory, SystemFiles(), self._loop, LocalStoreOptions())
        self._metadata = MemoryMetadataStore(SystemClock())

    async def open(self) -> None:
        """Open the log and create the cursor."""
        await self.store.open()
        self.cursor = self._cursors().create("s", Position(FIRST_LEDGER_ID, -1))

    async def recover(self) -> Cursor:
        """Return the cursor after a recovery from the log."""
        ledgers = [ledger for _, ledger in cursor_ledgers(self._metadata, TOPIC) if ledger is not None]
        reading = self.store.hold_runs(ledgers)
        if reading is not None:
            await reading
        found = self._cursors().open("s")
        self.store.release_runs(ledgers)
        assert found is not None
        return found

    async def acknowledge(self, numbers: Sequence[int]) -> int:
        """Acknowledge the entries with these numbers durably; return the bytes of the largest delta."""
        cursor, largest = self.cursor, 0
        waiting: list[asyncio.Future[None]] = []
        for start in range(0, len(numbers), ACKS_PER_FLUSH):
            for number in numbers[start : start + ACKS_PER_FLUSH]:
                ledger, entry_id = divmod(number, ENTRIES_PER_LEDGER)
                cursor.acknowledge_ranges(ranges_of(FIRST_LEDGER_ID + ledger, (entry_id,)))
            before = cursor.sizes.delta_bytes_written
            waiting.append(self._flush())
            largest = max(largest, cursor.sizes.delta_bytes_written - before)
            if len(waiting) == FLUSHES_IN_FLIGHT:
                await waiting.pop(0)
        for each in waiting:
            await each
        return largest

    def _flush(self) -> asyncio.Future[None]:
        durable: asyncio.Future[None] = self._loop.create_future()
        self.cursor.flush(lambda error: durable.set_exception(error) if error else durable.set_result(None))
        return durable

    def _cursors(self) -> CursorStore:
        return CursorStore(self.store, self._metadata, str(TOPIC), Backlog())


async def measure(directory: Path, sizes: Sequence[int]) -> list[Line]:
    """Measure one cursor at each of ``sizes`` acknowledgements."""
    # without the first one, so that the mark-delete position stays
    order = random.Random(1).sample(range(1, BACKLOG), sizes[-1])
    bench = Bench(directory)
    await bench.open()
    lines: list[Line] = []
    for before, size in zip((0, *sizes), sizes, strict=False):
        count, cursor = size - before, bench.cursor
        deltas, checkpoints = cursor.sizes.delta_bytes_written, cursor.sizes.checkpoint_bytes_written
        started, cpu = time.perf_counter(), time.process_time()
        largest = await bench.acknowledge(order[before:size])
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        checkpoints = cursor.sizes.checkpoint_bytes_written - checkpoints
        started = time.perf_counter()
        recovered = await bench.recover()
        recovery_s = time.perf_counter() - started
        assert recovered.state.individually_deleted.entries == size
        lines.append(
            Line(
                acknowledged=size,
                ranges=recovered.state.deleted_ranges_count,
                acks_per_second=count / seconds,
                cpu_us_per_ack=cpu / count * 1e6,
                bytes_per_ack=(cursor.sizes.delta_bytes_written - deltas + checkpoints) / count,
                checkpoint_bytes_per_ack=checkpoints / count,
                largest_delta_bytes=largest,
                recovery_s=recovery_s,
            )
        )
    await bench.store.close()
    return lines


def table(lines: Sequence[Line]) -> Table:
    """Return the lines as a table."""
    columns = ("acknowledged", "ranges", "acks/s", "CPU µs", "bytes", "of checkpoints", "largest delta", "recovery")
    found = Table(*columns, title="acknowledgements at random over 10,000,000 entries")
    for column in found.columns:
        column.justify = "right"
    for line in lines:
        found.add_row(
            f"{line.acknowledged:,}",
            f"{line.ranges:,}",
            f"{line.acks_per_second:,.0f}",
            f"{line.cpu_us_per_ack:.1f}",
            f"{line.bytes_per_ack:.1f}",
            f"{line.checkpoint_bytes_per_ack:.1f}",
            f"{line.largest_delta_bytes:,} B",
            f"{line.recovery_s * 1000:,.1f} ms",
        )
    return found


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench.acks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="stop at 100,000")
    parser.add_argument("--data", type=Path, default=Path("build/bench/acks"), help="directory of all data")
    options = parser.parse_args()
    shutil.rmtree(options.data, ignore_errors=True)
    options.data.mkdir(parents=True)
    lines = asyncio.run(measure(options.data, QUICK if options.quick else FULL))
    Console(width=118).print(table(lines))
    found = {"machine": describe_machine(options.data), "lines": [asdict(line) for line in lines]}
    sys.stdout.write(json.dumps(found) + "\n")
    shutil.rmtree(options.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
