"""Data directories with missing files: no topic opens empty, and no id is reused."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import DataLossError
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.ledger.agreement import bring_to_agreement, read_named_ledgers
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.ledger.shared_log.notes import LIFE_NAME
from magnetar.metadata.local import LocalMetadataStore
from magnetar.metadata.resources import managed_ledger_path
from tests.storage_faults.data_directory import ENTRIES, TOPIC, change_metadata, metadata_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = ManagedLedgerConfig()


def lose_all(ledgers: Path) -> None:
    shutil.rmtree(ledgers)


def lose_segments(ledgers: Path) -> None:
    for path in ledgers.iterdir():
        path.unlink()
    (ledgers / LIFE_NAME).write_text("old@1")


def forget_lengths(directory: Path) -> None:
    """Remove the entry counts from the ledger list, as for open ledgers."""
    path = managed_ledger_path(TOPIC)
    stored = metadata_at(directory, path)
    ledgers = [{**each, "entries": 0, "closedAt": None} for each in stored["ledgers"]]
    change_metadata(directory, path, {**stored, "ledgers": ledgers, "lastPosition": "-1:-1"})


async def start(directory: Path, *, sync: bool, first_ledger_id: int) -> tuple[list[str], list[int]]:
    """Start a broker's storage; return why the topic does not open, and the ids of the next ledgers."""
    clock, refusals = SystemClock(), []
    metadata = LocalMetadataStore(directory / METADATA, clock)
    named = read_named_ledgers(metadata)
    options = LocalStoreOptions(
        sync=sync, identity="new", first_ledger_id=first_ledger_id, named_ledger_id=named.highest
    )
    store = LocalLedgerStore(directory / LEDGERS, SystemFiles(), asyncio.get_running_loop(), options)
    await store.open()
    try:
        bring_to_agreement(store, metadata, named)
        for _ in range(2):  # the second one finds the state that the first one left
            try:
                ManagedLedger.open(store, metadata, TOPIC, CONFIG, clock)
            except DataLossError as error:
                refusals.append(str(error))
        return refusals, [store.create() for _ in range(3)]
    finally:
        await store.close()
        metadata.close()


@pytest.mark.parametrize("lose", [lose_all, lose_segments])
@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("first_ledger_id", [1, 1_700_000_000_000])
def test_a_topic_whose_files_are_gone_refuses(
    directory: Path, lose: Callable[[Path], None], first_ledger_id: int, *, sync: bool
) -> None:
    named = [each["ledgerId"] for each in metadata_at(directory, managed_ledger_path(TOPIC))["ledgers"]]
    forget_lengths(directory)
    lose(directory / LEDGERS)
    for _ in range(2):  # another start changes nothing
        refusals, given = asyncio.run(start(directory, sync=sync, first_ledger_id=first_ledger_id))
        assert len(refusals) == 2
        assert f"ledger {named[0]} is unknown to the log: files of the ledger directory are missing" in refusals[0]
        assert min(given) > max(named)


@pytest.mark.parametrize("sync", [True, False])
def test_a_topic_refuses_whose_ledgers_an_older_copy_of_the_files_lacks(directory: Path, *, sync: bool) -> None:
    path = managed_ledger_path(TOPIC)
    asyncio.run(start(directory, sync=sync, first_ledger_id=1))  # the files know the ids up to here
    stored = metadata_at(directory, path)
    lost = [{**each, "ledgerId": 10_000 + each["ledgerId"]} for each in stored["ledgers"]]
    change_metadata(directory, path, {**stored, "ledgers": lost})
    forget_lengths(directory)
    for _ in range(3):
        refusals, given = asyncio.run(start(directory, sync=sync, first_ledger_id=1))
        assert len(refusals) == 2
        assert f"ledger {lost[0]['ledgerId']} is unknown to the log: files of the ledger directory are" in refusals[0]
        assert min(given) > lost[-1]["ledgerId"]


@pytest.mark.parametrize("sync", [True, False])
def test_a_topic_whose_files_are_there_opens(directory: Path, *, sync: bool) -> None:
    forget_lengths(directory)
    refusals, _ = asyncio.run(start(directory, sync=sync, first_ledger_id=1))
    assert refusals == []


def test_the_check_names_the_ledger(directory: Path, run: Callable[..., tuple[int, Any, str]]) -> None:
    forget_lengths(directory)
    lose_all(directory / LEDGERS)
    asyncio.run(start(directory, sync=True, first_ledger_id=1_700_000_000_000))
    code, found, _ = run()
    assert code == 1
    assert any("is unknown to the log" in problem for problem in found["problems"])
    assert len(ENTRIES) == 10
