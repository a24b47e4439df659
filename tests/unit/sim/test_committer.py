"""The real store on a virtual disk and clock: entries reported as durable survive a loss of power at any time."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.sim.virtual.committer import VirtualCommitter
from magnetar.sim.virtual.disk import FaultyDisk
from magnetar.sim.virtual.network import Network
from magnetar.sim.virtual.scheduler import MachineLoop, Scheduler

if TYPE_CHECKING:
    from magnetar.base.errors import StorageError


def opened(scheduler: Scheduler, disk: FaultyDisk, chance: Random) -> tuple[LocalLedgerStore, list[VirtualCommitter]]:
    loop = MachineLoop(scheduler, "ewr", Network(chance, lambda *_: None))
    made: list[VirtualCommitter] = []

    def make(*arguments: object) -> VirtualCommitter:
        made.append(VirtualCommitter(loop, chance, *arguments))  # type: ignore[arg-type]
        return made[-1]

    store = LocalLedgerStore(
        Path("ledgers"), disk, loop, LocalStoreOptions(segment_bytes=2048), committer=partial(make)
    )
    loop.complete(store.open())
    return store, made


def test_reported_entries_survive_a_loss_of_power() -> None:
    found = [lose_power(seed) for seed in range(30)]
    assert all(reported <= kept <= 60 for reported, kept in found)
    assert any(0 < reported < kept for reported, kept in found), "some is written and not reported"
    assert any(reported == kept < 60 for reported, kept in found), "some is lost that was not reported"


def lose_power(seed: int) -> tuple[int, int]:
    """Append 60 entries and lose power; return the number of reported ones, and of surviving ones."""
    chance, scheduler, disk = Random(seed), Scheduler(), FaultyDisk()
    store, (committer,) = opened(scheduler, disk, chance)
    ledger_id, durable = store.create(), [0]
    for number in range(60):
        store.append(ledger_id, [b"entry %d" % number], partial(note, durable, number + 1))
        scheduler.run_until(scheduler.now + chance.uniform(0.0, 0.003))
    disk.crash_in(chance.randint(1, 3), chance)
    committer.tear()
    again, _ = opened(scheduler, disk.after_crash or disk.crash(chance), chance)
    kept = again.length(ledger_id) if ledger_id in again.list() else 0
    scheduler.close()
    return durable[0], kept


def note(durable: list[int], count: int, error: StorageError | None) -> None:
    assert error is None
    durable[0] = count
