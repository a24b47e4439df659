"""While a cursor's ledger cannot be written, the metadata store is used, within its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import DiskFullError, StorageError
from magnetar.base.names import TopicName
from magnetar.base.position import Position
from magnetar.cursor import fallback
from magnetar.cursor.limits import CursorLimits
from magnetar.metadata.resources import managed_ledger_path
from tests.unit.cursor.fakes import singly
from tests.unit.cursor.support import TOPIC, Setup, same

if TYPE_CHECKING:
    from magnetar.cursor.cursor import Cursor
    from magnetar.ledger.store import Run


def fail(setup: Setup, cursor: Cursor, *, full: bool = False) -> list[StorageError | None]:
    """Flush while the ledger cannot be written, and the metadata store neither if it is ``full``."""
    outcomes: list[StorageError | None] = []
    setup.metadata.full = full
    cursor.flush(outcomes.append)
    setup.store.fail()
    setup.metadata.full = False
    return outcomes


def test_states_in_the_metadata_store_are_durable() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[3:50:2]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[51:60:2]))
    cursor.acknowledge_batch(setup.positions[70], 0b011, 3)
    cursor.set_property("pulsar.replicated.subscription", 1)
    assert fail(setup, cursor) == [None]
    recovered = setup.crash()
    assert same(recovered, cursor)
    setup.flush(recovered)
    assert same(setup.crash(), cursor)


def test_a_fallback_keeps_the_properties_of_the_subscription_and_a_deleted_one_has_none() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start, subscription_properties={"team": "x"})
    cursor.set_subscription_properties({"team": "y"}, lambda _: None)
    cursor.acknowledge_cumulative(setup.positions[5])
    assert fail(setup, cursor) == [None]
    assert cursor.subscription_properties == {"team": "y"}
    recovered = setup.crash()
    assert recovered.subscription_properties == {"team": "y"}
    setup.cursors.delete("worker")
    assert recovered.subscription_properties == {}


def test_a_state_in_the_metadata_store_stays_there_while_the_ledger_fails() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[3:50:2]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[60:80:2]))
    cursor.acknowledge_batch(setup.positions[90], 0b011, 3)
    assert fail(setup, cursor) == [None]
    recovered = setup.crash()
    recovered.acknowledge_ranges(singly(setup.positions[81:83:2]))
    assert fail(setup, recovered) == [None]
    assert same(setup.crash(), recovered)


def test_a_cursor_that_never_had_a_ledger_lives_in_the_metadata_store() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[3:50:2]))
    assert fail(setup, cursor) == [None]
    recovered = setup.crash()
    assert same(recovered, cursor)
    assert same(setup.crash(), cursor)  # it has a new, empty ledger by now


def test_a_later_checkpoint_wins_over_what_the_metadata_store_has() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_cumulative(setup.positions[50])
    assert fail(setup, cursor) == [None]
    cursor.reset(setup.positions[10])
    setup.metadata.full = True  # so that it keeps the old record
    setup.flush(cursor)
    setup.metadata.full = False
    assert setup.crash().state.mark_delete_position == setup.positions[10]


def test_going_back_while_the_ledger_cannot_be_written_is_kept() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_cumulative(setup.positions[50])
    setup.flush(cursor)
    cursor.reset(setup.positions[10], [], [(setup.positions[12], 0b1)])
    assert fail(setup, cursor) == [None]
    assert same(setup.crash(), cursor)


def test_ranges_beyond_the_limit_give_way_first_and_no_receipt_is_given() -> None:
    setup = Setup(CursorLimits(metadata_ranges_max=3))
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"all"
    setup.flush(cursor)
    cursor.set_property("limit", 7)
    cursor.attach(b"sequence ids")
    cursor.acknowledge_ranges(singly(setup.positions[11:21:2]))
    cursor.acknowledge_batch(setup.positions[30], 0b1, 2)
    (outcome,) = fail(setup, cursor)
    assert isinstance(outcome, StorageError)
    recovered = setup.crash()
    assert recovered.properties == {"limit": 7}
    assert recovered.attachments == [b"all", b"sequence ids"]
    assert list(recovered.state.deleted()) == singly(setup.positions[11:17:2])
    assert recovered.state.partial_batches_count == 0


def test_a_fallback_with_too_many_ranges_does_not_replace_a_confirmed_one() -> None:
    setup = Setup(CursorLimits(metadata_ranges_max=3))
    cursor = setup.cursors.create("worker", setup.start)
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[51:57:2]))
    assert fail(setup, cursor) == [None]
    cursor.acknowledge_ranges(singly(setup.positions[11:17:2]))
    (outcome,) = fail(setup, cursor)
    assert isinstance(outcome, StorageError)
    assert list(setup.crash().state.deleted()) == singly(setup.positions[51:57:2])


def test_a_reset_with_too_many_ranges_for_the_metadata_store_leaves_the_state_before() -> None:
    setup = Setup(CursorLimits(metadata_ranges_max=3))
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"all"
    cursor.acknowledge_ranges(singly(setup.positions[11:31:2]))
    setup.flush(cursor)
    cursor.reset(setup.start, singly(setup.positions[11:33:2]))
    (outcome,) = fail(setup, cursor)
    assert isinstance(outcome, StorageError)
    recovered = setup.crash()
    assert list(recovered.state.deleted()) == singly(setup.positions[11:31:2])
    assert recovered.attachments == [b"all"]


def test_a_state_that_is_too_large_takes_back_nothing_that_was_confirmed_without_syncs() -> None:
    setup = Setup(CursorLimits(metadata_ranges_max=3))
    setup.store.syncs = False
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[11:31:2]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[41:43]))
    (outcome,) = fail(setup, cursor)
    assert isinstance(outcome, StorageError)
    assert list(setup.crash().state.deleted()) == singly(setup.positions[11:31:2])


def test_outcomes_come_in_order_if_a_later_state_is_too_large() -> None:
    setup = Setup(CursorLimits(metadata_ranges_max=3))
    cursor, outcomes = falling_back(setup)
    cursor.acknowledge_ranges(singly(setup.positions[21:25:2]))
    later: list[StorageError | None] = []
    cursor.flush(later.append)
    setup.store.fail()
    assert (outcomes, later) == ([], [])
    setup.metadata.release()
    assert outcomes == [None, None]
    assert [type(each) for each in later] == [DiskFullError]


def test_attachments_that_are_too_large_give_way_before_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fallback, "METADATA_RECORD_BYTES_MAX", 10)
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"all"
    setup.flush(cursor)
    cursor.set_property("limit", 7)
    cursor.attach(b"sequence ids")
    (outcome,) = fail(setup, cursor)
    assert isinstance(outcome, StorageError)
    recovered = setup.crash()
    assert (recovered.properties, recovered.attachments) == ({"limit": 7}, [b"all"])


def test_all_that_waits_for_the_same_outage_hears_the_same() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    setup.flush(cursor)
    for full in (True, False):
        outcomes: list[StorageError | None] = []
        for position in setup.positions[10:30:2]:
            cursor.acknowledge_ranges(singly([position]))
            cursor.flush(outcomes.append)
            cursor.flush(outcomes.append)
        setup.metadata.full = full
        setup.store.fail()
        setup.metadata.full = False
        assert [outcome is None for outcome in outcomes] == [not full] * 20
    assert same(setup.crash(), cursor)


def falling_back(setup: Setup) -> tuple[Cursor, list[StorageError | None]]:
    """A cursor whose last record failed, and is on its way to the metadata store."""
    cursor, outcomes = setup.cursors.create("worker", setup.start), list[StorageError | None]()
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[3:9:2]))
    setup.metadata.holds = True
    cursor.flush(outcomes.append)
    cursor.flush(outcomes.append)
    setup.store.fail()
    assert outcomes == [], "it is not durable anywhere"
    return cursor, outcomes


def test_a_fallback_is_reported_when_it_is_durable() -> None:
    setup = Setup()
    cursor, outcomes = falling_back(setup)
    setup.metadata.release()
    assert outcomes == [None, None]
    assert same(setup.crash(), cursor)


def test_a_fallback_that_cannot_be_stored_is_an_error_and_the_next_flush_writes_all() -> None:
    setup = Setup()
    cursor, outcomes = falling_back(setup)
    cursor.acknowledge_ranges(singly(setup.positions[21:29:2]))
    setup.metadata.full = True
    setup.metadata.release()
    assert [type(each) for each in outcomes] == [DiskFullError, DiskFullError]
    setup.metadata.full = False
    setup.flush(cursor)
    assert same(setup.crash(), cursor)


def test_a_crash_before_a_fallback_is_durable_takes_what_it_holds() -> None:
    setup = Setup()
    _, outcomes = falling_back(setup)
    recovered = setup.crash()
    assert outcomes == []
    assert (recovered.state.mark_delete_position, list(recovered.state.deleted())) == (setup.start, [])


def test_a_checkpoint_that_is_durable_before_the_fallback_makes_it_needless() -> None:
    setup = Setup()
    cursor, outcomes = falling_back(setup)
    cursor.reset(setup.positions[1])
    cursor.flush(outcomes.append)
    setup.store.settle()
    assert outcomes == [None, None, None]
    setup.metadata.full = True
    setup.metadata.release()
    assert outcomes == [None, None, None]
    assert same(setup.crash(), cursor)


def test_outcomes_of_several_fallbacks_come_in_order() -> None:
    setup = Setup()
    cursor, outcomes = falling_back(setup)
    told: list[str] = []
    for name in ("second", "third"):
        cursor.acknowledge_ranges(singly(setup.positions[len(told) + 31 : 40 : 2]))
        cursor.flush(lambda error, name=name: told.append(f"{name} {error}"))  # type: ignore[misc]
        setup.store.fail()
    assert (outcomes, told) == ([], [])
    setup.metadata.release()
    assert (outcomes, told) == ([None, None], ["second None", "third None"])
    assert same(setup.crash(), cursor)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_record_that_fails_while_its_cursor_is_deleted_waits_for_the_deletion(*, is_stored: bool) -> None:
    setup = Setup()
    cursor, outcomes = setup.cursors.create("worker", setup.start), list[StorageError | None]()
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[3:9:2]))
    cursor.flush(outcomes.append)
    setup.metadata.holds = True
    setup.cursors.delete("worker")
    cursor.close()
    setup.store.fail()
    assert outcomes == [], "the deletion may fail, and the record is nowhere"
    setup.metadata.full = not is_stored
    setup.metadata.release()
    assert [each is None for each in outcomes] == [is_stored]
    assert setup.cursors.names() == [] if is_stored else ["worker"]


def test_a_write_that_fails_after_the_cursor_was_deleted_does_not_bring_it_back() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    cursor.acknowledge_ranges(singly(setup.positions[3:50:2]))
    cursor.flush(lambda _: None)
    setup.cursors.delete("worker")
    setup.store.fail()
    assert setup.cursors.names() == []


def do(cursor: Cursor, attached: list[bytes], what: str, position: Position) -> None:
    match what:
        case "ack":
            cursor.acknowledge_ranges(singly([position]))
        case "through":
            cursor.acknowledge_cumulative(position)
        case "reset":
            cursor.reset(position)
        case "attach":
            attached.append(b"%d" % position.entry_id)
            cursor.attach(attached[-1])


@given(
    st.lists(st.tuples(st.sampled_from(["ack", "through", "reset", "attach"]), st.integers(0, 99)), max_size=20),
    st.lists(st.sampled_from(["durable", "taken", "lost", "crash"]), min_size=20, max_size=20),
)
def test_whatever_was_confirmed_survives(steps: list[tuple[str, int]], outcomes: list[str]) -> None:
    setup = Setup()
    attached: list[bytes] = []
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"|".join(attached) or None
    setup.flush(cursor)
    for (what, index), outcome in zip(steps, outcomes, strict=False):
        do(cursor, attached, what, setup.positions[index])
        if outcome == "durable":
            setup.flush(cursor)
        elif outcome == "taken":
            assert fail(setup, cursor) == [None]
        elif outcome == "lost":
            fail(setup, cursor, full=True)
        else:
            setup.flush(cursor)
            recovered = setup.crash()
            assert same(recovered, cursor)
            assert b"|".join(recovered.attachments).split(b"|") == (attached or [b""])
            cursor = recovered
            cursor.checkpoint_attachment = lambda: b"|".join(attached) or None
    assert fail(setup, cursor) == [None]
    assert same(setup.crash(), cursor)


STEPS = ["acknowledge", "flush", "settle", "fail", "release", "refuse", "crash"]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), max_size=40))
def test_whatever_was_confirmed_survives_whenever_fallbacks_become_durable(steps: list[tuple[str, int]]) -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    asked, confirmed = set[Position](), set[Position]()

    def flush(cursor: Cursor) -> None:
        written = asked.copy()
        cursor.flush(lambda error: confirmed.update(written) if error is None else None)

    def crashed() -> Cursor:
        recovered = setup.crash()
        kept = {position for position in setup.positions if recovered.state.is_deleted(position)}
        assert confirmed <= kept <= asked
        asked.intersection_update(kept)
        return recovered

    for what, index in steps:
        setup.metadata.holds = True
        match what:
            case "acknowledge":
                cursor.acknowledge_ranges(singly([setup.positions[index]]))
                asked.add(setup.positions[index])
            case "flush":
                flush(cursor)
            case "settle":
                setup.store.settle()
            case "fail":
                setup.store.fail()
            case "release" | "refuse":
                setup.metadata.full = what == "refuse"
                setup.metadata.release()
                setup.metadata.full = False
            case "crash":
                cursor = crashed()
    crashed()


def test_a_cursor_that_was_closed_does_not_put_its_own_old_state_over_what_its_successor_wrote() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[3:9:2]))
    assert fail(setup, cursor) == [None]
    cursor.close()
    successor = setup.cursors.open("worker")
    assert successor is not None
    successor.acknowledge_ranges(singly(setup.positions[11:19:2]))
    assert fail(setup, successor) == [None]
    (refused,) = fail(setup, cursor)
    assert refused is not None
    assert "cursor worker was closed" in str(refused)
    assert same(setup.crash(), successor)


def test_the_metadata_store_keeps_its_part_until_the_trim_behind_the_checkpoint_is_durable() -> None:
    setup = Setup()
    cursor = setup.cursors.create("worker", setup.start)
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[3:50:2]))
    assert fail(setup, cursor) == [None]
    path = f"{managed_ledger_path(TopicName.parse(TOPIC))}/cursors/worker"

    def is_there() -> bool:
        stored = setup.metadata.get(path)
        assert stored is not None
        return b"fallback" in stored.value

    setup.flush(cursor)
    assert is_there(), "without syncs, a power loss may still take the checkpoint"
    setup.store.settle()
    assert not is_there()


def lose_power(setup: Setup, synced: dict[int, list[Run]]) -> Cursor:
    """Start again with the synced records."""
    setup.store.runs_of = synced
    return setup.crash()


@pytest.mark.parametrize("is_reset", [True, False])
def test_the_metadata_store_holds_the_whole_state_where_a_power_loss_could_take_records(*, is_reset: bool) -> None:
    setup = Setup()
    setup.store.syncs = False
    cursor = setup.cursors.create("worker", setup.start)
    cursor.checkpoint_attachment = lambda: b"all that is claimed"
    cursor.acknowledge_ranges(singly(setup.positions[3:50:2]))
    setup.flush(cursor)
    setup.store.settle()
    synced = {ledger_id: list(runs) for ledger_id, runs in setup.store.runs_of.items()}
    if is_reset:
        cursor.reset(setup.start, singly(setup.positions[60:62]))
    else:
        cursor.acknowledge_cumulative(setup.positions[20])
    cursor.attach(b"more")
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[70:72]))
    assert fail(setup, cursor) == [None]
    recovered = lose_power(setup, synced)
    assert same(recovered, cursor)
    assert recovered.attachments == [b"all that is claimed"]


def test_the_metadata_store_holds_the_change_alone_where_records_are_synced() -> None:
    setup = Setup(CursorLimits(metadata_ranges_max=1))
    cursor = setup.cursors.create("worker", setup.start)
    cursor.reset(setup.start, singly(setup.positions[60:70:2]))
    setup.flush(cursor)
    cursor.acknowledge_ranges(singly(setup.positions[80:81]))
    assert fail(setup, cursor) == [None], "one range fits"
    assert same(setup.crash(), cursor)
