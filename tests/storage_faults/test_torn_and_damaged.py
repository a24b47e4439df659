from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from magnetar.base.errors import CorruptionError, DamagedEntriesError
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.segments.check import check
from magnetar.ledger.segments.segment import SEGMENT_HEADER_SIZE
from magnetar.sim.virtual.disk import FaultyDisk, Node
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.unit.ledger.support import append, barrier, opened, read_all

DIRECTORY = Path("/log")
FIRST, SECOND = DIRECTORY / "segment-0000000000000001.log", DIRECTORY / "segment-0000000000000002.log"
LARGE = LocalStoreOptions(segment_bytes=10_000)
SMALL = LocalStoreOptions(segment_bytes=150)


def entry(number: int) -> bytes:
    return b"entry %d" % number


def copy_of(disk: FaultyDisk) -> FaultyDisk:
    copy = FaultyDisk()
    for path, node in disk.nodes.items():
        copy.nodes[path] = Node()
        copy.nodes[path].data = bytearray(node.data)
    return copy


async def written(entries: int, options: LocalStoreOptions = LARGE) -> tuple[FaultyDisk, list[int], int]:
    """Return a disk with one ledger of a killed process, and the ends of its groups in the newest segment."""
    disk = FaultyDisk()
    ends = []
    async with opened(DIRECTORY, options, disk) as store:
        ledger_id = store.create()
        for number in range(entries):
            await append(store, ledger_id, [entry(number)])
            ends.append(len(disk.nodes[max(disk.nodes)].data))
        return copy_of(disk), ends, ledger_id


async def opens(disk: FaultyDisk) -> None:
    """Open the log, and close it like a kill."""
    store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), LARGE)
    await store.open()
    await store.close()


def test_a_tail_torn_at_any_byte_is_cut_and_nothing_else() -> None:
    async def scenario() -> None:
        disk, ends, ledger_id = await written(4)
        for size in range(ends[-2], ends[-1] + 1):
            torn = copy_of(disk)
            del torn.nodes[FIRST].data[size:]
            report = check(LocalMedium(DIRECTORY, torn))
            assert report.intact
            assert report.torn_bytes == (size - ends[-2] if size < ends[-1] else 0)
            kept = 4 if size == ends[-1] else 3
            async with opened(DIRECTORY, LARGE, torn) as store:
                assert await read_all(store, ledger_id) == [entry(number) for number in range(kept)]
                assert await append(store, ledger_id, [b"goes on"]) == kept

    asyncio.run(scenario())


def test_a_tail_that_was_lost_in_the_middle_of_the_last_group_is_cut() -> None:
    async def scenario() -> None:
        disk, _, ledger_id = await written(3)
        async with opened(DIRECTORY, LARGE, disk) as store:
            start = len(disk.nodes[FIRST].data)
            for number in range(3, 8):
                store.append(ledger_id, [entry(number)], lambda _: None)  # at most two groups
            await barrier(store)
            end = len(disk.nodes[FIRST].data)
            torn = copy_of(disk)
        # The second half of the remaining bytes reached the disk, the first half did not: no sync had returned.
        last_group = _start_of_last_group(torn, start, end)
        torn.nodes[FIRST].data[last_group : last_group + 40] = bytes(40)
        async with opened(DIRECTORY, LARGE, torn) as store:
            assert store.length(ledger_id) >= 3
            assert len(torn.nodes[FIRST].data) <= last_group + 48, "cut, then one reservation"

    asyncio.run(scenario())


def _start_of_last_group(disk: FaultyDisk, start: int, end: int) -> int:
    """Return the lowest offset of a damage that does not contradict a later record's statement about syncs."""
    for offset in range(start, end):
        if bytes(disk.nodes[FIRST].data[offset : offset + 4]) != b"MgRc":
            continue
        broken = copy_of(disk)
        broken.nodes[FIRST].data[offset] ^= 0xFF
        if check(LocalMedium(DIRECTORY, broken)).intact:
            return offset
    raise AssertionError


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_a_flipped_byte_below_what_was_synced_is_refused_by_file_and_offset(mask: int) -> None:
    async def scenario() -> None:
        disk, ends, _ = await written(4)
        for offset in range(ends[-2]):
            broken = copy_of(disk)
            broken.nodes[FIRST].data[offset] ^= mask
            if offset < SEGMENT_HEADER_SIZE:
                start = 0
            else:
                start = max([end for end in ends if end <= offset], default=None) or _record_start(disk, offset)
            with pytest.raises(CorruptionError, match=re.escape(f"{FIRST}: offset {start}: ")):
                await opens(broken)
            report = check(LocalMedium(DIRECTORY, broken))
            assert any(f"{FIRST}: offset {start}: " in problem for problem in report.problems)

    asyncio.run(scenario())


def _record_start(disk: FaultyDisk, offset: int) -> int:
    return bytes(disk.nodes[FIRST].data).rindex(b"MgRc", 0, offset + 4) if offset >= SEGMENT_HEADER_SIZE else 0


def test_a_flipped_byte_in_a_sealed_segment_is_found_by_whoever_reads_it() -> None:
    async def scenario() -> None:
        disk, _, ledger_id = await written(12, SMALL)
        assert len(disk.nodes) > 3
        for offset in range(len(disk.nodes[SECOND].data)):
            broken = copy_of(disk)
            broken.nodes[SECOND].data[offset] ^= 0x10
            assert any(str(SECOND) in problem for problem in check(LocalMedium(DIRECTORY, broken)).problems), offset
            store = LocalLedgerStore(DIRECTORY, broken, asyncio.get_running_loop(), SMALL)
            try:
                await store.open()
                found = await read_all(store, ledger_id)
                await store.close()
            except CorruptionError as error:
                assert re.search(rf"{SECOND}: offset \d+: ", str(error))  # noqa: PT017 - either outcome is right
                continue
            assert found == [entry(number) for number in range(12)], "damage that no reader meets harms nobody"

    asyncio.run(scenario())


def test_a_missing_segment_is_refused() -> None:
    async def scenario() -> None:
        disk, _, _ = await written(12, SMALL)
        del disk.nodes[SECOND]
        with pytest.raises(CorruptionError, match="misses entries"):
            await opens(disk)
        assert not check(LocalMedium(DIRECTORY, disk)).intact

    asyncio.run(scenario())


def test_a_segment_of_another_log_is_refused() -> None:
    async def scenario() -> None:
        disk, _, _ = await written(12, SMALL)
        other, _, _ = await written(12, LocalStoreOptions(segment_bytes=150, first_ledger_id=7))
        disk.nodes[SECOND] = other.nodes[SECOND]
        with pytest.raises(CorruptionError, match="does not continue segment"):
            await opens(disk)

    asyncio.run(scenario())


def test_a_segment_whose_creation_was_interrupted_is_removed() -> None:
    async def scenario() -> None:
        disk, _, ledger_id = await written(12, SMALL)
        async with opened(DIRECTORY, SMALL, disk):
            pass
        newest = max(disk.nodes)
        unborn = newest.with_name(f"segment-{int(newest.stem[-16:]) + 1:016d}.log")
        for size in range(SEGMENT_HEADER_SIZE):
            torn = copy_of(disk)
            torn.nodes[unborn] = Node()
            torn.nodes[unborn].data = bytearray(b"MAGNETAR".ljust(SEGMENT_HEADER_SIZE, b"\1")[:size])
            assert check(LocalMedium(DIRECTORY, torn)).intact
            async with opened(DIRECTORY, SMALL, torn) as store:
                assert await read_all(store, ledger_id) == [entry(number) for number in range(12)]

    asyncio.run(scenario())


def test_a_sealing_torn_at_any_byte_is_done_again() -> None:
    async def scenario() -> None:
        disk, ends, ledger_id = await written(3)
        async with opened(DIRECTORY, LARGE, disk):
            pass  # sealed by closing
        sealed = bytes(disk.nodes[FIRST].data)
        for size in range(ends[-1] + 48, len(sealed)):  # 48: the reservation of the second opening
            torn = copy_of(disk)
            del torn.nodes[FIRST].data[size:]
            assert check(LocalMedium(DIRECTORY, torn)).intact
            async with opened(DIRECTORY, LARGE, torn) as store:
                assert await read_all(store, ledger_id) == [entry(number) for number in range(3)]

    asyncio.run(scenario())


def test_a_newer_format_is_refused_by_its_version() -> None:
    async def scenario() -> None:
        import google_crc32c  # noqa: PLC0415 - only here

        disk, _, _ = await written(1)
        data = disk.nodes[FIRST].data
        data[8:10] = b"\x03\x00"
        data[24:28] = google_crc32c.value(bytes(data[:24])).to_bytes(4, "little")
        with pytest.raises(Exception, match="version 3 of the format, this release knows 2"):
            await opens(disk)

    asyncio.run(scenario())


def message(number: int) -> bytes:
    """Return an entry with a checksum, as producers create them."""
    return build_entry(pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1), b"payload")


async def readable(store: LocalLedgerStore, ledger_id: int, length: int) -> dict[int, bytes]:
    """Return the readable entries, without those that are reported as damaged."""
    found: dict[int, bytes] = {}
    at = 0
    while at < length:
        try:
            entries = await store.read(ledger_id, at, 100, 10_000)
        except DamagedEntriesError as error:
            at = error.end
        else:
            found.update(enumerate(entries, at))
            at += len(entries)
    return found


def test_damage_costs_the_entry_that_it_is_in_and_check_says_which() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        messages = [message(number) for number in range(12)]
        async with opened(DIRECTORY, LARGE, disk) as store:
            ledger_id = store.create()
            for start in range(0, 12, 4):
                await append(store, ledger_id, messages[start : start + 4])
        data = bytes(disk.nodes[FIRST].data)
        for number, each in enumerate(messages):
            broken = copy_of(disk)
            broken.nodes[FIRST].data[data.index(each) + len(each) - 1] ^= 0x01
            report = check(LocalMedium(DIRECTORY, broken))
            assert report.damaged == [(ledger_id, number, number + 1)]
            what = f"offset \\d+: entries {number} to {number} of ledger {ledger_id} are damaged"
            assert any(re.search(what, problem) for problem in report.problems)
            store = LocalLedgerStore(DIRECTORY, broken, asyncio.get_running_loop(), LARGE)
            await store.open()
            assert await readable(store, ledger_id, 12) == {
                other: messages[other] for other in range(12) if other != number
            }
            await store.close()

    asyncio.run(scenario())


def test_a_damaged_index_is_made_again_from_the_runs_and_check_names_it() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        async with opened(DIRECTORY, LARGE, disk) as store:
            one, two = store.create(), store.create()
            for number in range(5):
                await append(store, one, [entry(number)])
                await append(store, two, [entry(number * 2), entry(number * 2 + 1)])
        data = bytes(disk.nodes[FIRST].data)
        starts = [match.start() for match in re.finditer(rb"MgRc", data)]
        for ledger_id, index_at in zip((one, two), starts[-3:-1], strict=True):  # before the footer
            broken = copy_of(disk)
            broken.nodes[FIRST].data[index_at + 50] ^= 0x01
            assert any(f"offset {index_at}: " in problem for problem in check(LocalMedium(DIRECTORY, broken)).problems)
            store = LocalLedgerStore(DIRECTORY, broken, asyncio.get_running_loop(), LARGE)
            await store.open()
            assert await read_all(store, one) == [entry(number) for number in range(5)]
            assert await read_all(store, two) == [entry(number) for number in range(10)]
            await store.close()
            broken.nodes[FIRST].data[starts[2] + 50] ^= 0x01  # and a run of each
            broken.nodes[FIRST].data[starts[3] + 50] ^= 0x01
            store = LocalLedgerStore(DIRECTORY, broken, asyncio.get_running_loop(), LARGE)
            await store.open()
            with pytest.raises(CorruptionError, match="broken INDEX record"):
                await read_all(store, ledger_id)
            await store.close()

    asyncio.run(scenario())
