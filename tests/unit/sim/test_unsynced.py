from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.index import Claim
from magnetar.geo.progress.epochs import FIRST_EPOCH
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.checks.checker import Checker
from magnetar.sim.checks.model import Entry, Model
from magnetar.sim.checks.unsynced import Unsynced
from magnetar.sim.virtual.disk import Node

if TYPE_CHECKING:
    from magnetar.broker.subscription.subscription import Subscription
    from magnetar.sim.site import Replica

EWR = cast("Replica", SimpleNamespace(cluster="ewr"))


class StoppedReplica:
    """A topic of ewr before the start of its broker: the ledgers in its list, and their entries in the log."""

    cluster = "ewr"

    def __init__(self, listed: list[int], *stored: Position) -> None:
        self._listed = listed
        self._stored = stored

    def listed(self) -> list[int]:
        return self._listed

    def has_stored(self, position: Position) -> bool:
        return position in self._stored


def written(*entry_ids: int, ledger_id: int = 5) -> list[tuple[Position, Entry]]:
    places = [Position(ledger_id, entry_id) for entry_id in entry_ids]
    return [(at, Entry(f"p1-{at}", "ewr", at, 1)) for at in places]


def known(entries: list[tuple[Position, Entry]]) -> Model:
    model = Model(["ewr", "jfk"])
    for position, entry in entries:
        model.add("ewr", position, entry, 10, 0.0)
    return model


def test_a_loss_of_power_takes_the_end_of_a_log_that_was_not_synced() -> None:
    before = written(0, 1, 2, 3)
    model = known(before[:2])
    unsynced = Unsynced(model, sync=False)
    unsynced.synced("ewr")
    for position, entry in before[2:]:
        model.add("ewr", position, entry, 10, 0.0)
    unsynced.power_lost("ewr")
    assert unsynced.accept(EWR, before, before[:3]) == 3
    assert model.logs["ewr"].entries == before[:3]
    assert [model.is_lost(entry) for _, entry in before] == [False, False, False, True]
    assert model.given["ewr"] == before[3][0]


def test_lost_synced_entries_and_gaps_are_violations() -> None:
    before = written(0, 1, 2)
    for found, synced in ((before[:2], True), ([before[0], before[2]], False)):
        model = known(before)
        unsynced = Unsynced(model, sync=False)
        if synced:
            unsynced.synced("ewr")
        unsynced.power_lost("ewr")
        assert unsynced.accept(EWR, before, found) == 3
        assert model.logs["ewr"].entries == before


def test_new_entries_behind_the_lost_positions_are_no_fault() -> None:
    before = written(0, 1)
    model = known(before)
    unsynced = Unsynced(model, sync=False)
    unsynced.power_lost("ewr")
    assert unsynced.accept(EWR, before, [before[0], *written(0, ledger_id=6)]) == 1


def test_nothing_is_excused_without_a_loss_of_power_or_with_syncs() -> None:
    before = written(0, 1)
    killed, synced = Unsynced(known(before), sync=False), Unsynced(known(before), sync=True)
    synced.power_lost("ewr")
    assert killed.accept(EWR, before, before[:1]) == synced.accept(EWR, before, before[:1]) == 2


def test_acknowledgements_since_the_last_sync_may_be_forgotten() -> None:
    model = known([])
    unsynced = Unsynced(model, sync=False)
    model.promise("ewr", "worker").add(FIRST_EPOCH, {"p1-0": 1})
    unsynced.synced("ewr")
    model.promise("ewr", "worker").add(FIRST_EPOCH, {"p1-1": 1})
    model.promise("jfk", "worker").add(FIRST_EPOCH, {"p1-1": 1})
    unsynced.power_lost("ewr")
    assert model.promise("ewr", "worker").acknowledged == {"p1-0": 1}
    assert model.promise("jfk", "worker").acknowledged == {"p1-1": 1}
    assert (unsynced.keeps("ewr"), unsynced.keeps("jfk")) == (False, True)


def test_a_file_is_synced_until_something_is_written_or_a_sync_fails() -> None:
    node = Node(b"old")
    assert node.is_synced
    node.data += b"new"
    assert not node.is_synced
    node.fail_sync()
    assert not node.is_synced
    other = Node(b"")
    other.data += b"new"
    other.sync()
    assert other.is_synced


def lost_at_a_start(listed: list[int], *stored: Position, power: bool) -> tuple[Model, list[str]]:
    """Start with two ledgers of two entries; return the model and the violations."""
    model = known([*written(0, 1), *written(0, 1, ledger_id=6)])
    unsynced, wrong = Unsynced(model, sync=False), list[str]()
    checker = Checker(model, wrong.append, unsynced, deduplicated=False)
    replica = cast("Replica", StoppedReplica(listed, *stored))
    checker.ended(replica)
    if power:
        unsynced.power_lost("ewr")
    checker.started(replica)
    return model, wrong


def test_a_topic_that_has_nothing_left_lost_what_was_in_its_list_and_trimmed_the_rest() -> None:
    model, wrong = lost_at_a_start([6], power=True)
    assert wrong == []
    assert [model.is_lost(entry) for entry in model.published["ewr"]] == [False, False, True, True]


def test_entries_in_the_list_that_the_store_lacks_are_a_fault_unless_power_was_lost() -> None:
    _, wrong = lost_at_a_start([6], power=False)
    assert wrong == ["P1: after a restart ewr lacks ['p1-6:0 at 6:0', 'p1-6:1 at 6:1']"]
    _, wrong = lost_at_a_start([6], Position(6, 0), power=False)
    assert wrong == ["P1: after a restart ewr lacks ['p1-6:1 at 6:1']"]
    _, wrong = lost_at_a_start([5, 6], Position(6, 0), Position(6, 1), power=True)
    assert wrong == ["P1: after a restart ewr lacks ['p1-5:0 at 5:0', 'p1-5:1 at 5:1']"]


def test_a_trimmed_entry_is_not_left_where_its_acknowledgement_was_lost_and_is_claimed() -> None:
    model, wrong = known(written(0, 1)), list[str]()
    checker = Checker(model, wrong.append, Unsynced(model, sync=False), deduplicated=False)
    state = SubscriptionProgress("worker")
    state.claim([Claim("ewr", Position(5, -1), Position(5, 0))])
    topic = SimpleNamespace(ledger=SimpleNamespace(first_position=Position(6, 0)))
    cursor = SimpleNamespace(mark_delete_position=EARLIEST, is_deleted=lambda _: False, remaining=lambda _: None)
    progress, cursor = SimpleNamespace(state=state), SimpleNamespace(state=cursor)
    subscription = SimpleNamespace(topic=topic, cursor=cursor, progress=progress)
    left = [checker.left(EWR, cast("Subscription", subscription), entry) for entry in model.published["ewr"]]
    assert left == [0, 1]


def test_a_chunk_may_follow_one_that_was_lost_with_the_power_and_leave_out_none() -> None:
    chunks = [Entry(f"p1-0.{at}", "ewr", Position(5, at), 1, chunk_id=at, chunks=4) for at in range(4)]
    model, wrong = known([(chunks[0].position, chunks[0])]), list[str]()
    unsynced = Unsynced(model, sync=False)
    checker = Checker(model, wrong.append, unsynced, deduplicated=False)
    replica = cast("Replica", StoppedReplica([5]))
    checker._check_chunk(replica, chunks[0])
    checker.ended(replica)
    unsynced.power_lost("ewr")
    checker.started(replica)
    checker._check_chunk(replica, chunks[1])
    assert wrong == []
    checker._check_chunk(replica, chunks[3])
    assert len(wrong) == 1
