from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import CorruptionError, DiskFullError, StorageError
from magnetar.base.parts import take_apart
from magnetar.cursor.checkpoints import CHECKPOINT_AFTER_BYTES, SMALL_CHECKPOINT_AFTER_DELTAS
from magnetar.cursor.store import CursorStore, release_segment, renewal_of_checkpoints
from tests.unit.cursor.fakes import singly
from tests.unit.cursor.support import TOPIC, Setup, same
from tests.unit.ledger.support import barrier, opened

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.cursor.cursor import Cursor


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_only_flushed_acknowledgements_survive(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start, subscription_properties={"team": "x"})
    cursor.acknowledge_ranges(singly(setup.positions[3:9:2]))
    cursor.acknowledge_batch(setup.positions[20], 0b011, 3)
    cursor.set_property("pulsar.replicated.subscription", 1)
    setup.flush(cursor)
    cursor.acknowledge_cumulative(setup.positions[4])
    cursor.acknowledge_batch(setup.positions[20], 0b101, 3)
    cursor.acknowledge_batch(setup.positions[21], 0b110, 3)
    setup.flush(cursor)
    recovered = setup.crash()
    assert same(recovered, cursor)
    cursor.acknowledge_ranges(singly(setup.positions[50:60]))
    assert same(setup.crash(), recovered)


def test_single_acknowledgements_survive_in_deltas(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    setup.flush(cursor)
    for start in (60, 5, 61):
        cursor.acknowledge_ranges(singly(setup.positions[start : start + 20 : 2]))
        setup.flush(cursor)
    assert len(setup.records(cursor)) == 4
    assert same(setup.crash(), cursor)


def test_a_cursor_that_was_never_flushed_is_where_it_began(setup: Setup) -> None:
    setup.cursors.create("worker", setup.positions[7], subscription_properties={"a": "b"})
    cursor = setup.crash()
    assert cursor.state.mark_delete_position == setup.positions[7]
    assert cursor.subscription_properties == {"a": "b"}


def test_it_can_be_written_after_its_ledger_was_lost_with_the_crash(setup: Setup) -> None:
    setup.cursors.create("worker", setup.start)
    cursor = setup.crash()
    cursor.acknowledge_ranges(singly(setup.positions[:2]))
    setup.flush(cursor)
    assert setup.crash().state.mark_delete_position == setup.positions[1]


def test_the_cost_of_a_flush_is_in_proportion_to_what_changed(setup: Setup) -> None:
    for _ in range(5000):
        setup.positions.append(setup.log.append())
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[1:5000:3]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly([setup.positions[0]]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly([setup.positions[3000]]))
    setup.flush(cursor)
    checkpoint, *deltas = setup.records(cursor)
    assert checkpoint > 1000
    assert max(deltas) < 50


def test_deltas_that_outgrow_the_checkpoint_are_replaced_by_one(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"all"
    setup.flush(cursor)
    piece = b"x" * (CHECKPOINT_AFTER_BYTES // 4)
    for count in range(6):
        cursor.attach(piece)
        setup.flush(cursor)
        assert sum(setup.records(cursor)) < 2 * CHECKPOINT_AFTER_BYTES, count
    assert setup.crash().attachments in ([b"all"], [b"all", piece])


def test_many_tiny_deltas_are_replaced_by_a_small_checkpoint(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    for _ in range(2 * SMALL_CHECKPOINT_AFTER_DELTAS + 500):
        setup.positions.append(setup.log.append())
    for position in setup.positions:
        cursor.acknowledge_cumulative(position)
        setup.flush(cursor)
        assert len(setup.records(cursor)) <= SMALL_CHECKPOINT_AFTER_DELTAS + 1
    assert same(setup.crash(), cursor)


def test_tiny_deltas_do_not_make_a_large_checkpoint_come_more_often(setup: Setup) -> None:
    for _ in range(3 * SMALL_CHECKPOINT_AFTER_DELTAS):
        setup.positions.append(setup.log.append())
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"x" * CHECKPOINT_AFTER_BYTES
    setup.flush(cursor)
    for position in setup.positions[1 : 2 * SMALL_CHECKPOINT_AFTER_DELTAS]:
        cursor.acknowledge_cumulative(position)
        setup.flush(cursor)
    assert len(setup.records(cursor)) >= 2 * SMALL_CHECKPOINT_AFTER_DELTAS, "the first checkpoint is still the last"


def test_a_reset_is_taken_whole(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_cumulative(setup.positions[50])
    setup.flush(cursor)
    cursor.reset(setup.positions[5], [], [(setup.positions[9], 0b1)])
    setup.flush(cursor)
    recovered = setup.crash()
    assert same(recovered, cursor)
    assert recovered.state.mark_delete_position == setup.positions[5]


def test_attachments_come_back_in_order_and_stay_until_an_owner_takes_them(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"first"
    setup.flush(cursor)
    for data in (b"second", b"third"):
        cursor.attach(data)
        setup.flush(cursor)
    recovered = setup.crash()
    assert recovered.attachments == [b"first", b"second", b"third"]
    recovered.checkpoint(lambda _: None)
    setup.store.settle()
    recovered = setup.crash()
    assert recovered.attachments == [b"first", b"second", b"third"]
    recovered.checkpoint_attachment = lambda: b"all"
    assert not recovered.changed
    recovered.checkpoint_attachment = None
    setup.flush(recovered)
    assert setup.crash().attachments == []


def test_after_a_failed_write_the_next_one_holds_everything(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"all"
    setup.flush(cursor)
    outcomes: list[StorageError | None] = []
    cursor.acknowledge_ranges(singly(setup.positions[:5]))
    cursor.attach(b"lost")
    setup.metadata.full = True
    cursor.flush(outcomes.append)
    setup.store.fail()
    assert isinstance(outcomes[0], StorageError)
    setup.metadata.full = False
    setup.flush(cursor)
    recovered = setup.crash()
    assert same(recovered, cursor)
    assert recovered.attachments == [b"all"]


def test_a_flush_of_nothing_waits_for_those_before(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    outcomes: list[str] = []
    cursor.flush(lambda _: outcomes.append("first"))
    cursor.flush(lambda _: outcomes.append("second"))
    assert outcomes == []
    setup.store.settle()
    assert outcomes == ["first", "second"]
    assert len(setup.records(cursor)) == 1


def test_a_deleted_cursor_is_gone_with_its_ledger(setup: Setup) -> None:
    cursor = setup.cursors.create("a/b c", setup.start)
    setup.flush(cursor)
    assert setup.cursors.names() == ["a/b c"]
    setup.cursors.delete("a/b c")
    setup.cursors.delete("unknown")
    assert setup.cursors.names() == []
    assert setup.cursors.open("a/b c") is None
    assert setup.store.list() == []
    setup.store.crash()  # before the ledger's end is known to be durable
    again = CursorStore(setup.store, setup.metadata, TOPIC, setup.log)
    assert list(again.open_all()) == [None]
    setup.store.settle()
    assert again.names() == []
    assert setup.metadata.children("/managed-ledgers/public/default/persistent/orders/cursors") == []


def test_a_new_cursor_writes_once_its_record_is_durable(setup: Setup) -> None:
    setup.metadata.holds = True
    cursor, outcomes = setup.cursors.create("worker", setup.start), list[StorageError | None]()
    cursor.acknowledge_cumulative(setup.positions[3])
    cursor.flush(outcomes.append)
    cursor.acknowledge_cumulative(setup.positions[5])
    cursor.flush(outcomes.append)
    setup.store.settle()
    assert cursor.ledger_id is not None
    assert setup.store.length(cursor.ledger_id) == 0
    assert (setup.cursors.is_recording, outcomes) == (True, [])
    setup.metadata.release()
    assert not setup.cursors.is_recording
    setup.store.settle()
    assert outcomes == [None, None]
    assert setup.crash().state.mark_delete_position == setup.positions[5]


def test_a_new_cursor_that_is_closed_before_its_record_is_durable_still_writes(setup: Setup) -> None:
    outcomes: list[StorageError | None] = []
    setup.metadata.holds = True
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_cumulative(setup.positions[9])
    cursor.flush(outcomes.append)
    cursor.close()
    setup.metadata.release()
    setup.store.settle()
    assert outcomes == [None]
    assert setup.crash().state.mark_delete_position == setup.positions[9]


@pytest.mark.parametrize("durable", [True, False])
def test_a_cursor_may_be_cleared_before_the_next_one_is_created(setup: Setup, durable: bool) -> None:
    take_apart(setup.cursors.create("reader", setup.start, durable=durable))
    assert not setup.cursors.is_recording


def test_a_new_cursor_whose_record_cannot_be_stored_says_so(setup: Setup) -> None:
    failures: list[StorageError] = []
    setup.cursors = CursorStore(setup.store, setup.metadata, TOPIC, setup.log, failed=failures.append)
    setup.metadata.holds = True
    cursor, outcomes = setup.cursors.create("worker", setup.start), list[StorageError | None]()
    cursor.flush(outcomes.append)
    setup.metadata.full = True
    setup.metadata.release()
    assert [type(each) for each in (*failures, *outcomes)] == [DiskFullError, DiskFullError]
    assert (setup.store.list(), setup.cursors.names()) == ([], [])


def deleting(setup: Setup) -> tuple[list[StorageError], list[StorageError | None]]:
    """Delete a cursor that has records; the deletion is not durable yet."""
    failures, outcomes = list[StorageError](), list[StorageError | None]()
    setup.cursors = CursorStore(setup.store, setup.metadata, TOPIC, setup.log, failed=failures.append)
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_cumulative(setup.positions[3])
    setup.flush(cursor)
    setup.metadata.holds = True
    setup.cursors.delete("worker", outcomes.append)
    cursor.close()
    setup.store.settle()
    assert (setup.cursors.names(), setup.cursors.is_recording, outcomes) == ([], True, [])
    assert len(setup.store.list()) == 1, "until the deletion is durable, the next process needs the ledger"
    return failures, outcomes


def test_a_deletion_is_reported_when_it_is_durable(setup: Setup) -> None:
    failures, outcomes = deleting(setup)
    setup.metadata.release()
    assert (failures, outcomes, setup.cursors.is_recording) == ([], [None], False)
    setup.store.settle()
    assert setup.store.list() == []
    assert setup.metadata.children("/managed-ledgers/public/default/persistent/orders/cursors") == []


def test_a_crash_before_a_deletion_is_durable_leaves_the_cursor(setup: Setup) -> None:
    deleting(setup)
    assert setup.crash().state.mark_delete_position == setup.positions[3]


def test_a_deletion_that_cannot_be_stored_says_so_and_leaves_the_cursor(setup: Setup) -> None:
    failures, outcomes = deleting(setup)
    setup.metadata.full = True
    setup.metadata.release()
    assert [type(each) for each in (*failures, *outcomes)] == [DiskFullError, DiskFullError]
    setup.store.settle()
    assert setup.crash().state.mark_delete_position == setup.positions[3]


@pytest.mark.parametrize("is_deleted_again", [False, True])
def test_a_cursor_can_be_created_again_before_its_deletion_is_durable(setup: Setup, *, is_deleted_again: bool) -> None:
    failures, outcomes = deleting(setup)
    again = setup.cursors.create("worker", setup.positions[7])
    if is_deleted_again:
        setup.cursors.delete("worker", outcomes.append)
        again.close()
    setup.metadata.release()
    setup.store.settle()
    assert (failures, set(outcomes)) == ([], {None})
    assert setup.cursors.names() == [] if is_deleted_again else ["worker"]
    assert setup.store.list() == ([] if is_deleted_again else [again.ledger_id])
    if not is_deleted_again:
        assert setup.crash().state.mark_delete_position == setup.positions[7]


def test_a_deletion_that_fails_also_fails_what_followed_it(setup: Setup) -> None:
    failures, outcomes = deleting(setup)
    again = setup.cursors.create("worker", setup.positions[7])
    again.flush(outcomes.append)
    setup.metadata.full = True
    setup.metadata.release()
    assert [type(each) for each in outcomes] == [DiskFullError, DiskFullError]
    assert len(failures) == 2
    setup.store.settle()
    assert setup.crash().state.mark_delete_position == setup.positions[3]


def test_a_cursor_that_cannot_be_created_leaves_no_ledger_behind(setup: Setup) -> None:
    setup.metadata.full = True
    with pytest.raises(StorageError):
        setup.cursors.create("worker", setup.start)
    assert (setup.store.list(), setup.cursors.names()) == ([], [])


def test_a_cursor_created_again_while_the_old_one_goes_stays(setup: Setup) -> None:
    setup.flush(setup.cursors.create("worker", setup.positions[3]))
    setup.cursors.delete("worker")
    setup.cursors.create("worker", setup.positions[4])
    setup.store.settle()
    assert setup.crash().state.mark_delete_position == setup.positions[4]


def test_a_cursor_that_is_not_durable_is_written_nowhere(setup: Setup) -> None:
    cursor = setup.cursors.create("reader", setup.start, durable=False)
    cursor.acknowledge_ranges(singly(setup.positions[:3]))
    outcomes: list[StorageError | None] = []
    cursor.flush(outcomes.append)
    assert outcomes == [None]
    assert not cursor.durable
    assert (setup.cursors.names(), setup.store.list()) == ([], [])


def test_a_cursor_that_is_not_durable_gathers_nothing_to_write(setup: Setup) -> None:
    cursor = setup.cursors.create("reader", setup.start, durable=False)
    for position in setup.positions:
        cursor.acknowledge_batch(position, 0b10, 2)
        cursor.acknowledge_cumulative(position)
        cursor.flush(lambda _: None)
    assert (cursor._change.deleted, cursor._change.partial) == ([], {})


def test_a_record_that_cannot_be_read_is_refused(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    assert cursor.ledger_id is not None
    setup.store.append(cursor.ledger_id, (b"",), lambda _: None, b"\xff\xff")
    setup.store.settle()
    with pytest.raises(CorruptionError, match="record of a cursor"):
        setup.crash()


def test_old_segments_that_only_cursors_keep_are_released(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    setup.flush(cursor)
    assert cursor.ledger_id is not None
    older, newest = setup.store.segments()
    release_segment(setup.store, older, {})
    assert len(setup.records(cursor)) == 1, "somebody else may need it"
    by_ledger: dict[int, Cursor | None] = {cursor.ledger_id: cursor}
    release_segment(setup.store, older, by_ledger)
    release_segment(setup.store, older, by_ledger)
    assert by_ledger == {cursor.ledger_id: None}, "written anew, and only once"
    release_segment(setup.store, newest, {})
    setup.store.settle()
    assert [run.first_entry_id for run in setup.store.runs(cursor.ledger_id)] == [1]


def is_renewed(setup: Setup, cursor: Cursor, segments_max: int) -> bool:
    before = cursor.sizes.checkpoint_bytes_written
    assert list(renewal_of_checkpoints(setup.store, [cursor], segments_max)) == [None]
    return cursor.sizes.checkpoint_bytes_written > before


def test_a_cursor_in_an_old_segment_is_written_anew_whoever_else_needs_the_segment(setup: Setup) -> None:
    cursor = setup.cursors.create("worker", setup.start)
    assert not is_renewed(setup, cursor, 1), "it was never written"
    setup.flush(cursor)
    assert not is_renewed(setup, cursor, 2), "the segment is not old"
    assert is_renewed(setup, cursor, 1)
    setup.store.settle()
    assert cursor.ledger_id is not None
    assert [run.first_entry_id for run in setup.store.runs(cursor.ledger_id)] == [1]


def test_cursors_that_are_not_wanted_are_left_alone(setup: Setup) -> None:
    for name in ("link", "worker"):
        setup.cursors.create(name, setup.start)
    setup.store.crash()
    paths = {name: setup.cursors._path(name) for name in ("link", "worker")}
    before = {name: setup.metadata.get(path) for name, path in paths.items()}
    link, worker = setup.cursors.open_all(lambda name: name != "link")
    assert link is None
    assert worker is not None
    assert worker.name == "worker"
    assert setup.metadata.get(paths["worker"]) != before["worker"], "its ledger was lost: it has a new one"
    assert setup.metadata.get(paths["link"]) == before["link"]


def test_it_survives_in_the_real_store(tmp_path: Path) -> None:
    setup = Setup()

    async def write() -> Cursor:
        async with opened(tmp_path) as store:
            cursors = CursorStore(store, setup.metadata, TOPIC, setup.log)
            cursor = cursors.create("worker", setup.start)
            for position in setup.positions[::-2]:
                cursor.acknowledge_ranges(singly([position]))
                cursor.flush(lambda _: None)
            cursor.checkpoint(lambda _: None)
            cursor.acknowledge_ranges(singly(setup.positions[:40]))
            cursor.flush(lambda _: None)
            cursors.create("unwritten", setup.positions[7])
            assert await barrier(store) is None
            return cursor

    async def read() -> tuple[Cursor, Cursor]:
        async with opened(tmp_path) as store:
            reading = store.hold_runs(store.list())
            assert reading is not None, "the segment is sealed"
            await reading
            unwritten, worker = CursorStore(store, setup.metadata, TOPIC, setup.log).open_all()
            assert unwritten is not None
            assert worker is not None
            unwritten.acknowledge_ranges(singly(setup.positions[8:9]))
            unwritten.flush(lambda _: None)
            assert await barrier(store) is None
            return unwritten, worker

    cursor = asyncio.run(write())
    unwritten, worker = asyncio.run(read())
    assert same(worker, cursor)
    assert unwritten.state.mark_delete_position == setup.positions[8]
