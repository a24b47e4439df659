"""The log without a broker: durable appends, reads, recovery, and disk usage.

Appends are compared with the simplest possible loop on the same disk: the writes and syncs of the log, in the same
sizes and to files of the same size, from one prepared buffer with ``os.write`` and ``os.fdatasync``. The two alternate.
Requires only Magnetar.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop
from rich.console import Console
from rich.table import Table

from bench.frames import payload
from bench.sessions.one_broker import bytes_on_disk
from magnetar.base.names import TopicName
from magnetar.base.real import SystemClock, SystemFile, SystemFiles
from magnetar.broker.log.origin_summaries import OriginSummaries, has_summary
from magnetar.broker.loop.cycles import CycleCollector
from magnetar.broker.resources.process import tune
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.local import LocalMetadataStore
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.measure import describe_machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from magnetar.base.errors import StorageError

TOPIC = TopicName.parse("persistent://public/default/bench")
CLOCK = SystemClock()
MIB = 1 << 20
KIB = 1 << 10
RATIO_TARGET = 0.7
"""Target for the rate of durable appends, as a fraction of the plain loop's rate."""

IN_FLIGHT_BYTES = 16 * MIB
"""Bytes of entries in flight, as with a dozen busy connections: one group gathers while another is written."""

RUN_BYTES = 64 * KIB
"""Bytes of entries per append, as in one read of a socket. A larger entry forms a run."""

READ_ENTRIES, READ_BYTES = 100, 5 * MIB
"""The size of one read of a dispatcher."""

SMALL_ENTRY_BYTES = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """The amounts of all measurements."""

    rounds: int
    append_bytes: int
    recovery_entries: int


FULL = Scale(rounds=20, append_bytes=512 * MIB, recovery_entries=1_000_000)
QUICK = Scale(rounds=4, append_bytes=96 * MIB, recovery_entries=100_000)


@dataclass(slots=True)
class Steps:
    """The operations on the disk: a new file (None), a write of some bytes, or a sync (0)."""

    taken: list[int | None] = field(default_factory=list)


class RecordedFile(SystemFile):
    """A file that records its operations."""

    def __init__(self, path: Path, steps: Steps) -> None:
        """Open ``path``."""
        super().__init__(path)
        self._steps = steps

    def write(self, parts: Sequence[bytes]) -> None:
        """Record and write."""
        self._steps.taken.append(sum(map(len, parts)))
        super().write(parts)

    def sync(self) -> None:
        """Record and sync."""
        self._steps.taken.append(0)
        super().sync()


class RecordedFiles(SystemFiles):
    """The file system, with recording."""

    def __init__(self) -> None:
        """Begin without records."""
        self.steps = Steps()

    def open(self, path: Path) -> SystemFile:
        """Record the creation of a file."""
        if path.exists():
            return SystemFile(path)
        self.steps.taken.append(None)
        return RecordedFile(path, self.steps)


def entry_of(size: int) -> bytes:
    """Return an entry of about ``size`` bytes in the form of a producer."""
    return build_entry(pb.MessageMetadata(producer_name="bench", sequence_id=0, publish_time=1), payload(size))


async def append(store: LocalLedgerStore, ledger_id: int, entry: bytes, count: int, per_run: int) -> None:
    """Append ``count`` entries, and wait until all are durable."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    run = [entry] * per_run
    pending, window = 0, max(IN_FLIGHT_BYTES // (len(entry) * per_run), 2)
    left = count // per_run

    def more(error: StorageError | None) -> None:
        nonlocal pending, left
        assert error is None, error
        pending -= 1
        submit()
        if not pending and not done.done():
            done.set_result(None)

    def submit() -> None:
        nonlocal pending, left
        while left and pending < window:
            left -= 1
            pending += 1
            store.append(ledger_id, run, more)

    submit()
    await done


def replay(directory: Path, steps: list[int | None], buffer: memoryview) -> float:
    """Repeat the writes and syncs in a plain loop; return the seconds."""
    directory.mkdir(parents=True)
    descriptor, number = -1, 0
    started = time.perf_counter()
    for step in steps:
        if step is None:
            if descriptor >= 0:
                os.close(descriptor)
            number += 1
            descriptor = os.open(directory / f"{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        elif step:
            os.write(descriptor, buffer[:step])
        else:
            os.fdatasync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - started


def processor_seconds() -> float:
    """Return the processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def append_once(directory: Path, entry: bytes, count: int, per_run: int) -> tuple[float, float, list[int | None]]:
    """Append to a new log in ``directory``; return seconds, processor seconds, and the operations on the disk."""
    files = RecordedFiles()
    store = LocalLedgerStore(directory, files, asyncio.get_running_loop(), LocalStoreOptions())
    await store.open()
    ledger_id = store.create()
    started, used = time.perf_counter(), processor_seconds()
    await append(store, ledger_id, entry, count, per_run)
    seconds, processor = time.perf_counter() - started, processor_seconds() - used
    steps = list(files.steps.taken)
    await store.close()
    return seconds, processor, steps


async def appends(directory: Path, size: int, scale: Scale) -> dict[str, float]:
    """Compare durable appends of entries of ``size`` with the plain loop, alternately.

    The first one of a pair has to allocate memory for the page cache, which the second one reuses. So they alternate in
    being first, after an uncounted log whose operations the first plain loop repeats.
    """
    entry = entry_of(size)
    per_run = max(RUN_BYTES // len(entry), 1)
    count = scale.append_bytes // len(entry) // per_run * per_run
    buffer = memoryview(bytes(os.urandom(MIB)) * 64)
    ours, plain, cpu, plain_cpu, on_disk = [], [], [], [], []
    _, _, steps = await append_once(directory / "log", entry, count, per_run)
    shutil.rmtree(directory / "log")
    for number in range(scale.rounds):
        for what in ("plain", "log") if number % 2 else ("log", "plain"):
            if what == "log":
                seconds, processor, steps = await append_once(directory / what, entry, count, per_run)
                ours.append(seconds)
                cpu.append(processor)
                on_disk.append(bytes_on_disk(directory / what) / (count * len(entry)))
            else:
                used = processor_seconds()
                plain.append(replay(directory / what, steps, buffer))
                plain_cpu.append(processor_seconds() - used)
            shutil.rmtree(directory / what)
    ours_s, plain_s = statistics.median(ours), statistics.median(plain)
    return {
        "entries_per_s": count / ours_s,
        "mb_per_s": count * len(entry) / ours_s / 1e6,
        "plain_mb_per_s": count * len(entry) / plain_s / 1e6,
        "share_of_plain": statistics.median([p / o for p, o in zip(plain, ours, strict=True)]),
        "cpu_us_per_entry": statistics.median(cpu) / count * 1e6,
        "plain_cpu_us_per_entry": statistics.median(plain_cpu) / count * 1e6,
        "bytes_on_disk_per_byte": statistics.median(on_disk),
    }


async def reads(directory: Path, size: int, scale: Scale) -> dict[str, float]:
    """Read the newest entries from memory, and all entries from files that are not cached."""
    entry = entry_of(size)
    per_run = max(RUN_BYTES // len(entry), 1)
    count = scale.append_bytes // len(entry) // per_run * per_run
    store = LocalLedgerStore(directory, SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions())
    await store.open()
    ledger_id = store.create()
    await append(store, ledger_id, entry, count, per_run)
    first = max(count - LocalStoreOptions().tail_cache_bytes // 2 // len(entry), 0)
    started, found = time.perf_counter(), 0
    while entries := store.read_cached(ledger_id, first + found, READ_ENTRIES, READ_BYTES):
        found += len(entries)
    tail_s = time.perf_counter() - started
    await store.close()
    forget(directory)
    store = LocalLedgerStore(directory, SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions())
    await store.open()
    started, at = time.perf_counter(), 0
    while entries := await store.read(ledger_id, at, READ_ENTRIES, READ_BYTES):
        at += len(entries)
    backlog_s = time.perf_counter() - started
    assert at == count, (at, count)
    await store.close()
    shutil.rmtree(directory)
    return {
        "tail_entries_per_s": found / tail_s,
        "backlog_entries_per_s": count / backlog_s,
        "backlog_mb_per_s": count * len(entry) / backlog_s / 1e6,
    }


def forget(directory: Path) -> None:
    """Evict the files of ``directory`` from the page cache."""
    for path in directory.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


class Opened:
    """A store with its metadata and one topic."""

    def __init__(self, directory: Path) -> None:
        """Use the log in ``directory`` within a running loop."""
        self._metadata = LocalMetadataStore(directory / METADATA, CLOCK)
        self._store = LocalLedgerStore(
            directory / LEDGERS, SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions()
        )

    async def open(self) -> None:
        """Recover the store; record the durations of that and of opening the topic."""
        started = time.perf_counter()
        await self._store.open()
        self.store_s = time.perf_counter() - started
        config = ManagedLedgerConfig(min_rollover_ms=0)
        ledgers = [each for each in self._store.list() if not self._has_summary(each)]
        reading = self._store.hold_runs(ledgers)
        if reading is not None:
            await reading
        self.log = ManagedLedger.open(self._store, self._metadata, TOPIC, config, CLOCK)
        self.log.create()
        self.origins = OriginSummaries(self._metadata, TOPIC, self.log)
        self.stretches = sum(1 for _ in self.origins.recover())
        self._store.release_runs(ledgers)
        self.topic_s = time.perf_counter() - started - self.store_s

    async def settle(self) -> None:
        """Wait until everything is durable, and keep a broker's data about closed ledgers."""
        durable = asyncio.get_running_loop().create_future()
        self._store.barrier(durable.set_result)
        await durable
        self.origins.save()

    async def close(self) -> None:
        """Close the store."""
        self.log.close()
        self.origins.save()
        await self._store.close()
        self._metadata.close()

    def _has_summary(self, ledger_id: int) -> bool:
        return has_summary(self._metadata, TOPIC, ledger_id, self._store.length(ledger_id))


async def recovery(directory: Path, scale: Scale, per_run: int) -> dict[str, float]:
    """Open a topic with small entries, after a kill and after an orderly stop."""
    (directory / LEDGERS).mkdir(parents=True)
    run, count = [entry_of(SMALL_ENTRY_BYTES)] * per_run, scale.recovery_entries
    opened = Opened(directory)
    await opened.open()
    for number in range(count // per_run):
        opened.log.append(run, lambda first, _error: opened.origins.appended(first, per_run, b""))
        if number % 1_000 == 0:  # give the log time to write, and maintenance time to run
            await opened.settle()
    await opened.settle()
    killed = directory.with_name("killed")
    shutil.copytree(directory, killed)
    await opened.close()
    figures = {}
    for state, place in ("killed", killed), ("stopped", directory):
        again = Opened(place)
        await again.open()
        assert again.log.entries == count
        figures[f"{state}_store_s_per_million"] = again.store_s / count * 1e6
        figures[f"{state}_topic_s_per_million"] = again.topic_s / count * 1e6
        await again.close()
        shutil.rmtree(place)
    return figures


async def measure(directory: Path, scale: Scale) -> dict[str, dict[str, float]]:
    """Return all figures."""
    CycleCollector(asyncio.get_running_loop(), lambda: 0.0).start()
    return {
        "appends of 1 KiB": await appends(directory / "appends", KIB, scale),
        "appends of 100 KiB": await appends(directory / "appends", 100 * KIB, scale),
        "reads of 1 KiB": await reads(directory / "reads", KIB, scale),
        "reads of 100 KiB": await reads(directory / "reads", 100 * KIB, scale),
        "recovery, runs of 100": await recovery(directory / "recovery", scale, 100),
        "recovery, single entries": await recovery(directory / "recovery", scale, 1),
    }


def rows(found: dict[str, dict[str, float]]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table."""
    for group, figures in found.items():
        for name, value in figures.items():
            text = f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
            verdict = ""
            if name == "share_of_plain":
                verdict = f"{'met' if value >= RATIO_TARGET else 'missed'}: at least {RATIO_TARGET}"
            yield f"{group}: {name.replace('_', ' ')}", text, verdict


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything, some ten seconds")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="output format")
    parser.add_argument(
        "--directory", type=Path, default=Path("build") / "bench" / "ledger", help="directory of all files"
    )
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    machine: dict[str, Any] = describe_machine(options.directory)
    tune()
    found = uvloop.run(measure(options.directory, QUICK if options.quick else FULL))
    shutil.rmtree(options.directory)
    if options.output == "json":
        sys.stdout.write(json.dumps({"machine": machine, "figures": found}, indent=2) + "\n")
        return 0
    table = Table("the log by itself", "result", "target")
    for row in rows(found):
        table.add_row(*row)
    Console(width=100).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
