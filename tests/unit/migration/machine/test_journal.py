from __future__ import annotations

import random
from pathlib import Path

import pytest

from magnetar.base.errors import CorruptionError, MigrationStateError, StorageError
from magnetar.migration.machine.journal import NAME, Journal
from magnetar.migration.machine.migration import Migration
from magnetar.migration.machine.records import (
    Begun,
    Found,
    PlaceMoved,
    Record,
    StageMoved,
    SubscriptionsRemembered,
    TopicsMoved,
)
from magnetar.migration.machine.tables import PlaceEvent, StageEvent, TopicEvent
from magnetar.sim.virtual.disk import FaultyDisk
from tests.unit.migration.still_clock import NOW, StillClock

DIRECTORY = Path("/migration")
PATH = DIRECTORY / NAME
EU = "persistent://shop/orders/eu"
STORY: list[Record] = [
    Begun("shop", "ewr", "jfk"),
    Found((EU,), ("shop/orders",)),
    TopicsMoved(TopicEvent.CREATED, (EU,)),
    StageMoved(StageEvent.METADATA_COPIED),
    PlaceMoved(PlaceEvent.REMEMBERED, "shop/orders", ("ewr", "lga")),
    PlaceMoved(PlaceEvent.LINKED, "shop/orders"),
    TopicsMoved(TopicEvent.CARRIED, (EU,)),
    StageMoved(StageEvent.DATA_CARRIED),
    SubscriptionsRemembered({EU: {"billing": False}}),
    TopicsMoved(TopicEvent.REPLICATED, (EU,)),
    TopicsMoved(TopicEvent.AGREED, (EU,)),
    StageMoved(StageEvent.PROGRESS_AGREED),
    StageMoved(StageEvent.VERIFIED, 0),
]


def opened(disk: FaultyDisk) -> Journal:
    return Journal(disk, DIRECTORY, StillClock())


def state_after(count: int) -> Migration:
    migration = Migration()
    for record in STORY[:count]:
        migration.apply(record)
    return migration


def written(count: int = len(STORY)) -> FaultyDisk:
    disk = FaultyDisk()
    journal = opened(disk)
    for record in STORY[:count]:
        journal.append(record)
    return disk


def test_the_state_is_that_of_the_records() -> None:
    for count in range(len(STORY) + 1):
        journal = opened(written(count))
        assert journal.migration == state_after(count)
        assert journal.changed_at == (NOW if count else None)


def test_records_are_durable_before_they_have_effects() -> None:
    disk = FaultyDisk()
    journal = opened(disk)
    for record in STORY:
        syncs = disk.syncs
        journal.append(record)
        assert disk.syncs == syncs + 1
        assert disk.is_synced


@pytest.mark.parametrize("step", range(1, 30))
def test_a_loss_of_power_loses_at_most_the_record_that_was_not_stored(step: int) -> None:
    disk, stored = FaultyDisk(), 0
    disk.crash_in(step, random.Random(step))
    try:
        journal = opened(disk)
        for record in STORY:
            journal.append(record)
            stored += 1
    except StorageError:
        pass
    found = opened(disk.after_crash or disk)
    assert found.migration in (state_after(stored), state_after(stored + 1))
    for record in STORY[stored if found.migration == state_after(stored) else stored + 1 :]:
        found.append(record)
    assert found.migration == state_after(len(STORY))


def test_an_incomplete_last_line_is_cut_off() -> None:
    complete = bytes(written().nodes[PATH].data)
    shorter = bytes(written(len(STORY) - 1).nodes[PATH].data)
    for length in range(len(shorter), len(complete)):
        disk = written(0)
        disk.nodes[PATH].data[:] = complete[:length]
        journal = opened(disk)
        assert journal.migration == state_after(len(STORY) - 1)
        journal.append(STORY[-1])
        assert bytes(disk.nodes[PATH].data) == complete


def test_other_damage_is_refused() -> None:
    lines = bytes(written().nodes[PATH].data).splitlines(keepends=True)
    for number in range(len(STORY) - 1):
        changed = lines[number].replace(b'"', b"'", 1)
        without, exchanged = lines[:number] + lines[number + 1 :], [*lines]
        exchanged[number : number + 2] = reversed(lines[number : number + 2])
        for found in ([*lines[:number], changed, *lines[number + 1 :]], without, exchanged):
            disk = written(0)
            disk.nodes[PATH].data[:] = b"".join(found)
            if found is without and number == len(STORY) - 2:
                assert opened(disk).migration == state_after(number)  # as if the last record were incomplete
                continue
            with pytest.raises(CorruptionError, match=f"line {number + 1} is damaged"):
                opened(disk)


def test_a_record_of_a_later_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    journal = opened(disk)
    monkeypatch.setattr("magnetar.migration.machine.journal.to_json", lambda _: {"kind": "teleported"})
    journal.append(STORY[0])
    with pytest.raises(CorruptionError, match=r"line 1: unknown record 'teleported'\nhint: use the version"):
        opened(disk)


def test_an_illegal_record_is_not_stored() -> None:
    disk = written()
    before = bytes(disk.nodes[PATH].data)
    with pytest.raises(MigrationStateError):
        opened(disk).append(StageMoved(StageEvent.CLEAN_UP))
    assert bytes(disk.nodes[PATH].data) == before


def test_nothing_is_accepted_after_a_failed_write() -> None:
    disk = written(3)
    journal = opened(disk)
    disk.fail_syncs = True
    with pytest.raises(StorageError, match="cannot write"):
        journal.append(STORY[3])
    disk.fail_syncs = False
    with pytest.raises(StorageError, match="hint: run the command again"):
        journal.append(STORY[3])
