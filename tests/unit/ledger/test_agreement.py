from __future__ import annotations

import asyncio
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DataLossError, DiskFullError
from magnetar.base.names import TopicName
from magnetar.base.position import EARLIEST, Position
from magnetar.base.real import SystemClock
from magnetar.cursor.store import CursorStore
from magnetar.ledger.agreement import (
    LOST_PROPERTY,
    LostEntries,
    bring_to_agreement,
    find_unlisted,
    needed_boundaries,
    note_losses,
    read_named_ledgers,
    shorten,
)
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.medium.space import RESERVE_NAME
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.ledger.shared_log.notes import UNSYNCED_NAME
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.resources import managed_ledger_path
from magnetar.sim.virtual.disk import FaultyDisk, Node
from magnetar.sim.virtual.metadata import FaultyMetadataStore
from tests.kit.stored import put
from tests.unit.ledger.support import append, barrier, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.metadata.cached import Transaction


DIRECTORY = Path("/log")
TOPIC = TopicName.parse("persistent://public/default/orders")
IDLE = TopicName.parse("persistent://public/default/idle")
CONFIG = ManagedLedgerConfig(max_entries_per_ledger=4, min_rollover_ms=0)
UNSYNCED = LocalStoreOptions(sync=False)
SYNCED = LocalStoreOptions()
CLOCK = SystemClock()


def stored(last: str, *ledgers: tuple[int, int]) -> dict[str, object]:
    listed = [
        {"ledgerId": ledger_id, "createdAt": 1, "closedAt": 2, "entries": entries} for ledger_id, entries in ledgers
    ]
    return {"ledgers": listed, "lastPosition": last, "properties": {}}


def test_a_list_that_the_log_holds_stays_as_it_is() -> None:
    value = stored("7:3", (5, 4), (7, 4))
    assert shorten(value, {5: 4, 7: 6}) == []
    assert value == stored("7:3", (5, 4), (7, 4))


def test_entries_lost_by_the_log_are_removed_from_the_list_and_reported() -> None:
    value = stored("9:3", (5, 4), (7, 4), (9, 4))
    assert shorten(value, {5: 4, 7: 1}) == [
        LostEntries(Position(7, 1), Position(7, 3)),
        LostEntries(Position(9, 0), Position(9, 3)),
    ]
    assert value == stored("7:0", (5, 4), (7, 1), (9, 0))


def test_a_topic_that_lost_everything_ends_before_its_first_lost_entry() -> None:
    value = stored("7:3", (7, 4))
    assert shorten(value, {}) == [LostEntries(Position(7, 0), Position(7, 3))]
    assert value == stored("7:-1", (7, 0))


def test_a_ledger_between_two_named_ones_is_garbage_and_others_may_be_data() -> None:
    found = find_unlisted([1, 2, 3, 5, 6, 8, 9], {2: 0, 6: 10, 8: 1}, swept_from=0)
    assert (found.garbage, found.unknown) == ([3, 5], [1, 9])


def test_below_the_bound_nothing_is_garbage() -> None:
    found = find_unlisted([2, 3, 5, 6], {2: 0, 6: 10}, swept_from=5)
    assert (found.garbage, found.unknown) == ([5], [3])


@pytest.mark.parametrize("confirmed", [{}, {2: 0, 6: 10, 7: 3}])
def test_nothing_is_garbage_where_log_and_metadata_do_not_belong_together(confirmed: dict[int, int]) -> None:
    found = find_unlisted([2, 3, 6], confirmed, swept_from=0)
    assert found.garbage == []
    assert 3 in found.unknown


async def publish(ledger: ManagedLedger, store: LocalLedgerStore, count: int) -> list[Position]:
    """Append entries one by one, each after the report of the previous one."""
    positions = []
    for number in range(count):
        positions.append(ledger.append([b"entry %d" % number], lambda _position, _error: None))
        await barrier(store)
    return positions


async def open_store(disk: FaultyDisk, options: LocalStoreOptions) -> LocalLedgerStore:
    store = LocalLedgerStore(DIRECTORY, disk, asyncio.get_running_loop(), options)
    await store.open()
    return store


def open_topic(store: LocalLedgerStore, metadata: MemoryMetadataStore) -> ManagedLedger:
    return ManagedLedger.open(store, metadata, TOPIC, CONFIG, CLOCK)


def without_unsynced_bytes(disk: FaultyDisk) -> FaultyDisk:
    """Return the disk after a power loss in which only synced data survives."""
    after = FaultyDisk()
    after.nodes = {path: Node(node.synced) for path, node in disk.nodes.items()}
    after.sync_directory(DIRECTORY)
    return after


async def power_loss_without_syncs(entries: int) -> tuple[FaultyDisk, MemoryMetadataStore, list[Position]]:
    """Return a topic whose list has more entries than its log, and the confirmed positions."""
    disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
    store = await open_store(disk, UNSYNCED)
    bring_to_agreement(store, metadata, read_named_ledgers(metadata))
    ledger = open_topic(store, metadata)
    positions = await publish(ledger, store, entries)
    with disk.lock:  # the list is written while the ledger's end is not on the disk
        ledger.close()
        lost = without_unsynced_bytes(disk)
    await store.close()
    return lost, metadata.reopened(), positions


@pytest.mark.parametrize("options", [UNSYNCED, SYNCED])
def test_entries_lost_without_syncs_are_accepted_whatever_the_configuration_says_now(
    options: LocalStoreOptions,
) -> None:
    async def scenario() -> None:
        disk, metadata, confirmed = await power_loss_without_syncs(10)
        async with opened(DIRECTORY, options, disk) as store:
            assert store.may_lack_entries
            with pytest.raises(DataLossError):
                open_topic(store, metadata)
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            ledger = open_topic(store, metadata)
            kept = ledger.entries
            assert kept < 10
            assert ledger.contains(ledger.last_confirmed_entry)
            assert ledger.last_confirmed_entry == confirmed[kept - 1]
            (position,) = await publish(ledger, store, 1)
            assert position.ledger_id > confirmed[-1].ledger_id, "no position is given twice"
            ledger.close()
            await barrier(store)
        async with opened(DIRECTORY, options, disk) as store:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert open_topic(store, metadata).entries == kept + 1

    asyncio.run(scenario())


def test_a_topic_that_lost_entries_without_syncs_counts_those_that_are_known_to_be_lost() -> None:
    async def scenario() -> None:
        disk, metadata, _ = await power_loss_without_syncs(10)
        async with opened(DIRECTORY, UNSYNCED, disk) as store:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            ledger = open_topic(store, metadata)
            lost = 10 - ledger.entries
            assert ledger.properties == {LOST_PROPERTY: str(lost)}
            ledger.close()
            await barrier(store)
        async with opened(DIRECTORY, UNSYNCED, disk) as store:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert open_topic(store, metadata).properties == {LOST_PROPERTY: str(lost)}, "the stop was in order"

    asyncio.run(scenario())


def test_a_topic_whose_list_was_written_before_its_last_entries_may_lack_them_and_nobody_knows_how_many() -> None:
    async def scenario() -> None:
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        async with opened(DIRECTORY, UNSYNCED, disk) as store:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            idle = ManagedLedger.open(store, metadata, IDLE, CONFIG, CLOCK)
            await publish(idle, store, 1)
            idle.close()
            await publish(open_topic(store, metadata), store, 3)
            crashed, kept = without_unsynced_bytes(disk), metadata.reopened()
            crashed.nodes |= {path: node for path, node in disk.nodes.items() if path != DIRECTORY}
        async with opened(DIRECTORY, UNSYNCED, crashed) as store:
            bring_to_agreement(store, kept, read_named_ledgers(kept))
            assert open_topic(store, kept).properties == {LOST_PROPERTY: "0"}
            assert ManagedLedger.open(store, kept, IDLE, CONFIG, CLOCK).properties == {}, "its list was complete"

    asyncio.run(scenario())


def test_losses_add_up() -> None:
    properties = {"mine": "x"}
    note_losses(properties, [LostEntries(Position(7, 1), Position(7, 3)), LostEntries(Position(9, 0), Position(9, 0))])
    note_losses(properties, [LostEntries(Position(10, 0), Position(10, 1))])
    assert properties == {"mine": "x", LOST_PROPERTY: "6"}


def test_a_shorter_log_is_data_loss_where_entries_were_always_synced() -> None:
    async def scenario() -> None:
        disk, metadata, _ = await power_loss_without_syncs(10)
        del disk.nodes[DIRECTORY / UNSYNCED_NAME]
        async with opened(DIRECTORY, SYNCED, disk) as store:
            assert not store.may_lack_entries
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            with pytest.raises(DataLossError):
                open_topic(store, metadata)

    asyncio.run(scenario())


def test_the_note_of_a_run_without_syncs_goes_when_the_log_is_closed_in_order_or_losses_are_accepted() -> None:
    async def scenario() -> None:
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        note = DIRECTORY / UNSYNCED_NAME
        async with opened(DIRECTORY, UNSYNCED, disk) as store:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert note in disk.nodes
            crashed = without_unsynced_bytes(disk)
        assert note not in disk.nodes
        assert note in crashed.nodes
        async with opened(DIRECTORY, SYNCED, crashed) as store:
            assert note in crashed.nodes
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert note not in crashed.nodes
        async with opened(DIRECTORY, SYNCED, crashed) as store:
            assert not store.may_lack_entries

    asyncio.run(scenario())


def test_a_start_that_may_lack_entries_sets_a_boundary_that_later_starts_keep() -> None:
    async def scenario() -> None:
        disk, metadata, confirmed = await power_loss_without_syncs(10)
        boundaries: list[tuple[int, ...]] = []
        for options in (UNSYNCED, UNSYNCED, SYNCED, SYNCED):
            metadata = metadata.reopened()
            async with opened(DIRECTORY, options, disk) as store:
                boundaries.append(bring_to_agreement(store, metadata, read_named_ledgers(metadata)))
                (position,) = await publish(open_topic(store, metadata), store, 1)
                assert boundaries[-1][-1] <= position.ledger_id
        first, second, synced, again = boundaries
        assert confirmed[-1].ledger_id < first[-1] < second[-1]
        assert first == second[:-1]
        assert second == synced == again, "entries were synced, or the broker was stopped in order"

    asyncio.run(scenario())


def test_a_boundary_that_divides_no_ledgers_is_forgotten() -> None:
    assert needed_boundaries([9], []) == [9]
    assert needed_boundaries([2, 4, 9], []) == [9]
    assert needed_boundaries([9, 2, 4, 6], [1, 3, 4, 8]) == [2, 4, 6, 9]
    assert needed_boundaries([2, 4, 6, 9], [5, 20]) == [4, 9]


def test_a_cursor_ahead_of_a_log_that_lost_entries_takes_what_comes() -> None:
    async def scenario() -> None:
        disk, metadata, confirmed = await power_loss_without_syncs(10)
        async with opened(DIRECTORY, UNSYNCED, disk) as store:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            ledger = open_topic(store, metadata)
            cursor = CursorStore(store, metadata, str(TOPIC), ledger).create("s", confirmed[-1])
            assert cursor.state.backlog(ledger.last_confirmed_entry) == 0
            (position,) = await publish(ledger, store, 1)
            assert cursor.state.backlog(ledger.last_confirmed_entry) == 1
            assert ledger.next_position(cursor.state.mark_delete_position) == position
            cursor.acknowledge_ranges([])
            assert cursor.state.acknowledge([position])
            assert cursor.state.mark_delete_position == position

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_power_loss_without_syncs_loses_the_end_and_gives_no_id_twice(seed: int) -> None:
    async def scenario() -> None:
        chance = random.Random(seed)
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        options = LocalStoreOptions(sync=False, segment_bytes=1500, ledger_id_block=8)
        seen: list[Position] = []
        for _ in range(6):
            store = await open_store(disk, options)
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            ledger = open_topic(store, metadata)
            held = [position for position in seen if ledger.contains(position)]
            assert held == seen[: len(held)], "a prefix"
            positions = await publish(ledger, store, chance.randint(1, 30))
            assert all(earlier < later for earlier, later in pairwise([*seen, *positions]))
            seen = [*held, *positions]
            if chance.random() < 0.5:
                ledger.trim(seen[len(seen) // 2], 0, (0, 0))
                await barrier(store)
                seen = [position for position in seen if ledger.contains(position)]
            after = disk.crash(chance)
            await store.close()
            disk, metadata = after, metadata.reopened()

    asyncio.run(scenario())


class CrampedMetadata(MemoryMetadataStore):
    """A metadata store that finds space only if the store has released its reserve."""

    def __init__(self, disk: FaultyDisk) -> None:
        super().__init__(CLOCK)
        self._disk = disk

    def _submit(self, transaction: Transaction) -> None:
        if DIRECTORY / RESERVE_NAME in self._disk.nodes:
            self._failed(DiskFullError("metadata store: database or disk is full"))
        else:
            super()._submit(transaction)


def test_a_start_on_a_full_disk_notes_losses_in_the_room_that_was_held_back() -> None:
    async def scenario() -> None:
        disk = FaultyDisk()
        metadata = CrampedMetadata(disk)
        options = LocalStoreOptions(sync=False, reserve_bytes=100)
        async with opened(DIRECTORY, options, disk) as store:
            assert DIRECTORY / RESERVE_NAME in disk.nodes
            (boundary,) = bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert DIRECTORY / RESERVE_NAME not in disk.nodes
            assert boundary == store.next_ledger_id == store.create()
            assert not store.may_lack_entries

    asyncio.run(scenario())


def test_the_ledgers_of_a_trim_whose_list_cannot_be_written_are_deleted_with_the_next_list() -> None:
    async def scenario() -> None:
        metadata = FaultyMetadataStore(CLOCK)
        async with opened(DIRECTORY, SYNCED, FaultyDisk()) as store:
            ledger = open_topic(store, metadata)
            positions = await publish(ledger, store, 10)
            before = [each.ledger_id for each in ledger.ledgers()]
            metadata.fail_writes = True
            trimmed = {"magnetar.origins": "{}"}
            assert ledger.trim(positions[-1], 0, (0, 0), lambda _: trimmed) == positions[8]
            await barrier(store)
            assert store.list() == before, "a crash would bring them back"
            assert open_topic(store, metadata).properties == {}
            metadata.fail_writes = False
            ledger.save()
            await barrier(store)
            assert store.list() == [before[-1]]
            assert open_topic(store, metadata).properties == trimmed
            assert metadata.children("/deleting-ledgers") == []

    asyncio.run(scenario())


def test_ledgers_that_nothing_lists_are_deleted_when_the_store_is_opened() -> None:
    async def scenario() -> None:
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        async with opened(DIRECTORY, SYNCED, disk) as store:
            ledger = open_topic(store, metadata)
            cursor = CursorStore(store, metadata, str(TOPIC), ledger).create("s", EARLIEST)
            cursor.flush(lambda _: None)
            await publish(ledger, store, 4)
            orphan = store.create()
            await append(store, orphan, [b"nobody's"])
            await publish(ledger, store, 1)
        async with opened(DIRECTORY, SYNCED, disk) as store:
            assert orphan in store.list()
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert orphan not in store.list()
            assert len(store.list()) == 3
            assert open_topic(store, metadata).entries == 5

    asyncio.run(scenario())


def test_the_log_of_a_lost_metadata_store_is_never_deleted() -> None:
    async def scenario() -> None:
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        async with opened(DIRECTORY, SYNCED, disk) as store:
            await publish(open_topic(store, metadata), store, 10)
            held = store.list()
        older = MemoryMetadataStore(CLOCK)
        for _ in range(3):  # topics are created on top of it
            async with opened(DIRECTORY, SYNCED, disk) as store:
                bring_to_agreement(store, older, read_named_ledgers(older))
                await publish(open_topic(store, older), store, 5)
                assert set(held) <= set(store.list())

    asyncio.run(scenario())


def test_a_list_that_cannot_be_read_keeps_every_ledger() -> None:
    async def scenario() -> None:
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        async with opened(DIRECTORY, SYNCED, disk) as store:
            await publish(open_topic(store, metadata), store, 4)
            other = TopicName.parse("persistent://public/default/other")
            await publish(ManagedLedger.open(store, metadata, other, CONFIG, CLOCK), store, 4)
            held = store.list()
            put(metadata, managed_ledger_path(other), json.dumps({"unknown": "format"}).encode())
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert store.list() == held

    asyncio.run(scenario())


def with_record(path: str, value: bytes, look: Callable[[LocalLedgerStore, MemoryMetadataStore], None]) -> None:
    """Call ``look`` with a store that has a topic, an unlisted ledger, and ``value`` in place of a record."""

    async def scenario() -> None:
        disk, metadata = FaultyDisk(), MemoryMetadataStore(CLOCK)
        async with opened(DIRECTORY, SYNCED, disk) as store:
            ledger = open_topic(store, metadata)
            await publish(ledger, store, 4)
            await append(store, store.create(), [b"nobody's"])
            await publish(ledger, store, 4)
            put(metadata, path, value)
            look(store, metadata)

    asyncio.run(scenario())


@pytest.mark.parametrize("value", [b"", b"x", b"[7]"])
def test_a_bound_of_the_sweep_that_cannot_be_read_keeps_every_ledger(value: bytes) -> None:
    def look(store: LocalLedgerStore, metadata: MemoryMetadataStore) -> None:
        held = store.list()
        for _ in range(2):  # later starts keep them, too
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            assert store.list() == held

    with_record("/ledgers-swept-from", value, look)


@pytest.mark.parametrize("value", [b"", b"x", b"7", b'["x"]'])
def test_loss_boundaries_that_cannot_be_read_divide_all_ledgers(value: bytes) -> None:
    def look(store: LocalLedgerStore, metadata: MemoryMetadataStore) -> None:
        boundaries = bring_to_agreement(store, metadata, read_named_ledgers(metadata))
        assert boundaries == (*store.list(), store.next_ledger_id)
        assert bring_to_agreement(store, metadata, read_named_ledgers(metadata)) == boundaries, "they are stored"

    with_record("/ledgers-loss-boundaries", value, look)


@pytest.mark.parametrize("value", [b"", b"7", b'["x"]', b"null"])
def test_a_note_of_a_deletion_that_cannot_be_read_stops_no_start(value: bytes) -> None:
    def look(store: LocalLedgerStore, metadata: MemoryMetadataStore) -> None:
        listed = [each.ledger_id for each in open_topic(store, metadata).ledgers()]
        bring_to_agreement(store, metadata, read_named_ledgers(metadata))
        assert [each for each in store.list() if each in listed] == listed

    with_record("/deleting-ledgers/1", value, look)


def test_each_named_ledger_is_not_searched_for_among_all() -> None:
    class Listed(list[int]):
        def __contains__(self, _ledger_id: object) -> bool:
            message = "the time of a search for each ledger grows with the square of their number"
            raise AssertionError(message)

    found = find_unlisted(Listed([3, 4, 5, 6, 7]), {3: 9, 5: 1, 6: 0}, 0)
    assert (found.garbage, found.unknown) == ([4], [7])
