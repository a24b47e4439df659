from __future__ import annotations

from pathlib import Path

from magnetar.ledger.medium.space import RESERVE_NAME, Space
from magnetar.sim.virtual.disk import FaultyDisk

DIRECTORY = Path("/log")
RESERVE = DIRECTORY / RESERVE_NAME


def test_publishing_pauses_below_the_mark_and_goes_on_with_a_fourth_more() -> None:
    disk = FaultyDisk()
    space = Space(disk, DIRECTORY, 0, 1000)
    assert space.shortage() is None
    disk.room = 1000
    assert space.shortage() is None
    disk.room = 999
    assert "999 bytes are free" in (space.shortage() or "")
    disk.room = 1249
    assert "goes on with 1250" in (space.remaining_shortage() or "")
    disk.room = 1250
    assert space.remaining_shortage() is None


def test_the_reserve_is_taken_again_before_publishing_goes_on() -> None:
    disk = FaultyDisk()
    space = Space(disk, DIRECTORY, 500, 1000)
    assert space.take_reserve()
    assert len(disk.nodes[RESERVE].data) == 500
    disk.room = 0
    assert space.give_reserve()
    assert disk.room == 500
    assert not space.give_reserve(), "there is no more"
    disk.room = 1749
    assert space.remaining_shortage() is not None
    disk.room = 1750
    assert space.remaining_shortage() is None
    assert disk.room == 1250
    assert len(disk.nodes[RESERVE].data) == 500


def test_a_reserve_for_which_there_is_no_room_leaves_nothing_behind() -> None:
    disk = FaultyDisk()
    disk.room = 400
    assert not Space(disk, DIRECTORY, 500, 1000).take_reserve()
    assert (disk.room, disk.nodes) == (400, {})


def test_the_reserve_of_a_killed_broker_is_there_for_the_next() -> None:
    disk = FaultyDisk()
    Space(disk, DIRECTORY, 500, 1000).take_reserve()
    disk.room = 0
    assert Space(disk, DIRECTORY, 500, 1000).give_reserve()
    assert disk.room == 500


def test_a_disk_that_is_not_watched_is_never_full() -> None:
    disk = FaultyDisk()
    disk.room = 0
    space = Space(disk, DIRECTORY, 0, 0)
    assert not space.is_watched
    assert space.shortage() is None
