from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from magnetar.base.position import Position
from magnetar.geo.epochs import FIRST_EPOCH
from magnetar.sim.disk import Node
from magnetar.sim.model import Entry, Model
from magnetar.sim.unsynced import Unsynced

if TYPE_CHECKING:
    from magnetar.sim.replica import Replica

EWR = cast("Replica", SimpleNamespace(cluster="ewr"))


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


def test_what_was_synced_or_is_followed_by_more_is_not_excused() -> None:
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
