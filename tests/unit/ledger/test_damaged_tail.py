"""Damaged records of the unsealed segment: a log opens with damaged entries only; other damage is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import CorruptionError, DamagedEntriesError
from magnetar.ledger.medium.blocking import run_blocking
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.segments.check import check
from magnetar.ledger.segments.record import HEADER_SIZE, Kind
from magnetar.ledger.shared_log.log import Log, with_entries, without_entries
from magnetar.ledger.shared_log.reader import LogReader
from magnetar.ledger.store import Run
from magnetar.sim.virtual.disk import FaultyDisk, Node
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.ledger.segments.index import LogIndex

DIRECTORY = Path("/data/log")
SEGMENT = DIRECTORY / "segment-0000000000000001.log"
HIT, OTHER = 5, 6
ANNOTATION = b"where they come from"
MIB = 1 << 20


def entry(number: int, size: int = 12) -> bytes:
    return build_entry(pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1), b"x" * size)


HIT_ENTRIES = [entry(number, number * 7) for number in range(6)]
"""Entries of the damaged ledger: three runs of two."""

OTHER_ENTRIES = [entry(100 + number) for number in range(3)]


def commit(log: Log, ledger_id: int, first: int, entries: Sequence[bytes], annotation: bytes = b"") -> None:
    run_blocking(log.commit, [with_entries(ledger_id, first, entries, annotation, lambda _: None, urgent=True)])


def written(entries: Sequence[bytes] = HIT_ENTRIES) -> tuple[FaultyDisk, int, int]:
    """Return the log of a killed process, and the offsets [start, end) of the second run of HIT, which tests damage."""
    disk = FaultyDisk()
    log = reopened(disk)
    run_blocking(log.commit, [without_entries(Kind.RESERVE, 100)])
    commit(log, HIT, 0, entries[:2], ANNOTATION)
    commit(log, OTHER, 0, OTHER_ENTRIES[:1])
    start = len(disk.nodes[SEGMENT].data)
    commit(log, HIT, 2, entries[2:4], ANNOTATION)
    end = len(disk.nodes[SEGMENT].data)
    commit(log, OTHER, 1, OTHER_ENTRIES[1:])
    commit(log, HIT, 4, entries[4:], ANNOTATION)
    run_blocking(log.abandon)
    return disk, start, end


def with_bytes(disk: FaultyDisk, changes: dict[int, int]) -> FaultyDisk:
    """Return a copy of the disk with the segment's bytes at these offsets flipped by these masks."""
    copy = FaultyDisk()
    for path, node in disk.nodes.items():
        copy.nodes[path] = Node(bytes(node.data))
    for offset, mask in changes.items():
        copy.nodes[SEGMENT].data[offset] ^= mask
    return copy


def reopened(disk: FaultyDisk) -> Log:
    log = Log(LocalMedium(DIRECTORY, disk), MIB, sync=True)
    run_blocking(log.open)
    return log


def readable(disk: FaultyDisk, index: LogIndex, ledger_id: int, runs: list[Run] | None = None) -> dict[int, bytes]:
    """Return the readable entries of a ledger, without those that are reported as damaged."""
    reader = LogReader(LocalMedium(DIRECTORY, disk), index, 10_000)
    if runs is not None:
        run_blocking(reader.read_runs, [ledger_id])
        runs += reader.runs(ledger_id)
    found: dict[int, bytes] = {}
    at = 0
    while at < index.ledgers[ledger_id].length:
        try:
            entries = run_blocking(reader.read, ledger_id, at, 100, MIB)
        except DamagedEntriesError as error:
            at = error.end
        else:
            assert entries
            found.update(enumerate(entries, at))
            at += len(entries)
    return found


def entry_at(disk: FaultyDisk, offset: int) -> int | None:
    """Return the id of the entry of HIT with a byte at ``offset``."""
    data = bytes(disk.nodes[SEGMENT].data)
    starts = [data.index(each) for each in HIT_ENTRIES]
    hit = [number for number, at in enumerate(starts) if at <= offset < at + len(HIT_ENTRIES[number])]
    return hit[0] if hit else None


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_of_a_run_costs_at_most_its_entry_or_is_refused_by_file_and_offset(mask: int) -> None:
    disk, start, end = written()
    for offset in range(start, end):
        broken = with_bytes(disk, {offset: mask})
        hit = entry_at(disk, offset)
        if hit is None:
            with pytest.raises(CorruptionError, match=re.escape(f"{SEGMENT}: offset {start}: ")) as refused:
                reopened(broken)
            assert "restore the data directory from a copy" in str(refused.value)
            assert any(
                f"{SEGMENT}: offset {start}: " in problem for problem in check(LocalMedium(DIRECTORY, broken)).problems
            )
            continue
        report = check(LocalMedium(DIRECTORY, broken))
        assert report.damaged == [(HIT, hit, hit + 1)]
        what = f"{SEGMENT}: offset {start}: entries {hit} to {hit} of ledger {HIT} are damaged"
        assert report.problems == (what,)
        log = reopened(broken)
        runs: list[Run] = []
        expected = {number: each for number, each in enumerate(HIT_ENTRIES) if number != hit}
        assert readable(broken, log.index, HIT, runs) == expected
        assert runs == [Run(first, 2, ANNOTATION) for first in (0, 2, 4)]
        assert readable(broken, log.index, OTHER) == dict(enumerate(OTHER_ENTRIES))
        run_blocking(log.abandon)


def test_the_damage_stays_as_it_is_while_the_log_goes_on_and_is_sealed() -> None:
    disk, start, end = written()
    data = bytes(disk.nodes[SEGMENT].data)
    broken = with_bytes(disk, {data.index(HIT_ENTRIES[2]) + 20: 0x10})
    record = bytes(broken.nodes[SEGMENT].data[start:end])
    kept = {number: each for number, each in enumerate([*HIT_ENTRIES, entry(6)]) if number != 2}
    log = reopened(broken)
    commit(log, HIT, 6, [entry(6)])
    run_blocking(log.abandon)
    for _ in range(2):  # a walk the first time, the index the second time
        log = reopened(broken)
        assert readable(broken, log.index, HIT) == kept
        run_blocking(log.close, 100)
        assert bytes(broken.nodes[SEGMENT].data[start:end]) == record
        assert check(LocalMedium(DIRECTORY, broken)).damaged == [(HIT, 2, 3)]


def test_several_damaged_entries_in_neighbouring_records_cost_only_these() -> None:
    disk, _, _ = written()
    data = bytes(disk.nodes[SEGMENT].data)
    garbage = range(data.index(HIT_ENTRIES[2]) + 6, data.index(HIT_ENTRIES[2]) + len(HIT_ENTRIES[2]))
    changes = {offset: (offset * 37) % 255 + 1 for offset in garbage}
    changes |= {data.index(each) + 12: 0x04 for each in (HIT_ENTRIES[0], HIT_ENTRIES[1], HIT_ENTRIES[3])}
    changes |= {data.index(OTHER_ENTRIES[1]) + 12: 0x08}
    broken = with_bytes(disk, changes)
    log = reopened(broken)
    assert readable(broken, log.index, HIT) == {4: HIT_ENTRIES[4], 5: HIT_ENTRIES[5]}
    assert readable(broken, log.index, OTHER) == {0: OTHER_ENTRIES[0], 2: OTHER_ENTRIES[2]}
    run_blocking(log.abandon)


def test_damage_of_an_entry_does_not_hide_damage_of_anything_else_in_the_record() -> None:
    disk, start, end = written()
    data = bytes(disk.nodes[SEGMENT].data)
    inside = data.index(HIT_ENTRIES[2]) + 15
    others = [offset for offset in range(start, end) if entry_at(disk, offset) is None]
    for offset in others:
        with pytest.raises(CorruptionError, match=f"offset {start}: "):
            reopened(with_bytes(disk, {inside: 0x10, offset: 0x02}))


def test_an_entry_without_a_checksum_proves_nothing_of_its_record() -> None:
    entries = [*HIT_ENTRIES[:2], b"plain", HIT_ENTRIES[3], *HIT_ENTRIES[4:]]
    disk, start, _ = written(entries)
    data = bytes(disk.nodes[SEGMENT].data)
    with pytest.raises(CorruptionError, match=f"offset {start}: "):
        reopened(with_bytes(disk, {data.index(b"plain"): 0x01}))
    broken = with_bytes(disk, {data.index(HIT_ENTRIES[3]) + 10: 0x01})
    log = reopened(broken)
    found = readable(broken, log.index, HIT)
    assert sorted(found) == [0, 1, 4, 5], "in a damaged run it counts as damaged, as in a sealed segment"
    run_blocking(log.abandon)


def test_damage_that_no_later_sync_proves_is_a_torn_tail() -> None:
    disk, _, _ = written()
    data = bytes(disk.nodes[SEGMENT].data)
    last = data.rindex(b"MgRc")
    for offset in range(last, len(data)):
        torn = with_bytes(disk, {offset: 0x01})
        assert check(LocalMedium(DIRECTORY, torn)).problems == ()
        log = reopened(torn)
        assert log.index.ledgers[HIT].length == 4
        assert len(torn.nodes[SEGMENT].data) == last
        run_blocking(log.abandon)


def test_a_damaged_control_record_is_refused() -> None:
    disk, _, _ = written()
    first = bytes(disk.nodes[SEGMENT].data).index(b"MgRc")
    for offset in range(first, first + HEADER_SIZE + 16):
        with pytest.raises(CorruptionError, match=f"offset {first}: "):
            reopened(with_bytes(disk, {offset: 0x01}))
