"""``magnetar check`` of whole data directories: errors, possible losses, and repairs."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from magnetar.base.errors import StorageError
from magnetar.base.lock import DirectoryLock
from magnetar.base.position import Position
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.delayed.incarnation import INCARNATION_PROPERTY
from magnetar.broker.delayed.store import DELAYED, DelayedStore, Request
from magnetar.broker.delayed.window import Delayed
from magnetar.broker.publish.sequence_ids import SequenceIds
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.cli.main import main
from magnetar.cursor.store import CursorStore
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.ledger.shared_log.notes import UNSYNCED_NAME
from magnetar.metadata.local import LocalMetadataStore
from magnetar.metadata.resources import managed_ledger_path
from magnetar.offline.check import Loss, check
from magnetar.wire.links import DEDUPLICATION_CURSOR
from tests.kit.stored import put
from tests.storage_faults.data_directory import ENTRIES, TOPIC, change_metadata, metadata_at
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def segments(directory: Path) -> list[Path]:
    return sorted((directory / LEDGERS).iterdir())


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in segments(directory)}


def test_a_brokers_data_directory_is_intact_and_not_changed(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    before = content(directory)
    code, found, _ = run()
    assert code == 0
    assert found["intact"]
    assert (found["topics"], found["cursors"], found["orphans"]) == (1, 1, [])
    assert found["log"]["entries"] == len(ENTRIES) + 1, "and one record of the cursor"
    code, _, said = run("--repair")
    assert (code, said) == (0, "nothing to repair\n")
    assert content(directory) == before


def test_a_damaged_entry_is_named_by_file_topic_and_position(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    (path,) = (path for path in segments(directory) if ENTRIES[3] in path.read_bytes())
    data = bytearray(path.read_bytes())
    data[data.index(ENTRIES[3]) + len(ENTRIES[3]) - 1] ^= 1
    path.write_bytes(data)
    before = content(directory)
    code, found, _ = run()
    assert code == 1
    ledger_id = found["log"]["damaged"][0][0]
    position = [ledger_id, 3]
    assert found["losses"] == [
        {"topic": str(TOPIC), "subscription": None, "first": position, "last": position, "entries": 1}
    ]
    assert any(problem.startswith(f"{path}: offset ") for problem in found["problems"])
    code, _, said = run("--repair")
    assert code == 1
    assert "not repaired" in said
    assert content(directory) == before


def test_a_torn_tail_is_cut_when_asked_for_and_nothing_else(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    whole = content(directory)
    newest = segments(directory)[-1]
    footer_at = newest.read_bytes().rindex(b"MgRc")
    os.truncate(newest, footer_at + 10)
    code, found, said = run()
    assert (code, found["log"]["torn_bytes"]) == (0, 10)
    assert "--repair" in said
    code, _, said = run("--repair")
    assert (code, said) == (0, "cut 10 torn bytes, which held no confirmed data\n")
    assert newest.read_bytes() == whole[newest.name][:footer_at]
    assert run()[1]["log"]["torn_bytes"] == 0


def test_entries_that_were_durable_and_are_gone_are_counted(directory: Path) -> None:
    path = managed_ledger_path(TOPIC)
    stored = metadata_at(directory, path)
    first, second = stored["ledgers"]
    change_metadata(directory, path, {**stored, "ledgers": [first, {**second, "entries": 9}]})
    report = check(directory)
    positions = Position(second["ledgerId"], 4), Position(second["ledgerId"], 8)
    assert report.losses == [Loss(str(TOPIC), None, *positions, 5)]
    assert report.problems == [f"{path}: ledger {second['ledgerId']} holds 4 entries, 9 were durable"]


def test_entries_that_were_never_synced_are_told_from_durable_ones(directory: Path) -> None:
    path = managed_ledger_path(TOPIC)
    stored = metadata_at(directory, path)
    longer = [{**each, "entries": each["entries"] + 100} for each in stored["ledgers"]]
    change_metadata(directory, path, {**stored, "ledgers": longer})
    (directory / LEDGERS / UNSYNCED_NAME).touch()
    report = check(directory)
    assert len(report.losses) == len(report.problems) == 2
    assert all("confirmed without a sync (journalSyncData=false)" in problem for problem in report.problems)


def test_a_ledger_that_nobody_names_only_takes_space(directory: Path) -> None:
    path = managed_ledger_path(TOPIC)
    stored = metadata_at(directory, path)
    change_metadata(directory, path, {**stored, "ledgers": stored["ledgers"][:1]})
    report = check(directory)
    assert report.orphans == [stored["ledgers"][1]["ledgerId"]]
    assert report.losses == []


def test_a_cursor_beyond_its_topic_is_found(directory: Path) -> None:
    path = managed_ledger_path(TOPIC)
    stored = metadata_at(directory, path)
    change_metadata(directory, path, {**stored, "ledgers": [], "lastPosition": "0:0"})
    (problem,) = check(directory).problems
    assert "acknowledged up to" in problem
    assert "but the log ends at 0:0" in problem


def test_sequence_ids_that_cannot_be_read_are_found(directory: Path, run: Callable[..., tuple[int, Any, str]]) -> None:
    async def snapshot(attached: bytes) -> None:
        clock = SystemClock()
        metadata = LocalMetadataStore(directory / METADATA, clock)
        store = LocalLedgerStore(directory / LEDGERS, SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions())
        await store.open()
        log = ManagedLedger.open(store, metadata, TOPIC, ManagedLedgerConfig(), clock)
        cursors = CursorStore(store, metadata, str(TOPIC), log)
        cursors.delete(DEDUPLICATION_CURSOR)
        cursor = cursors.create(DEDUPLICATION_CURSOR, log.last_confirmed_entry)
        cursor.checkpoint_attachment = lambda: attached
        cursor.flush(lambda _: None)
        await barrier(store)
        log.close()
        await store.close()
        metadata.close()

    asyncio.run(snapshot(SequenceIds().checkpoint(Position(1, 2))))
    assert run()[0] == 0
    asyncio.run(snapshot(b"\x09"))
    code, found, _ = run()
    assert code == 1
    assert "snapshot of sequence ids" in str(found["problems"])


@pytest.mark.parametrize("below", ["", "/cursors/a%2Fb+c"])
def test_metadata_that_cannot_be_read_is_named(directory: Path, below: str) -> None:
    change_metadata(directory, f"{managed_ledger_path(TOPIC)}{below}", "nonsense")
    assert any(below in problem and "cannot be read" in problem for problem in check(directory).problems)


def test_a_broken_metadata_store_is_named(directory: Path) -> None:
    (directory / METADATA).write_bytes(b"not a database" * 100)
    (problem,) = check(directory).problems
    assert METADATA in problem
    (directory / METADATA).unlink()
    (problem,) = check(directory).problems
    assert METADATA in problem
    assert not (directory / METADATA).exists()


def test_a_page_of_the_metadata_store_that_rotted_is_found(directory: Path) -> None:
    connection = sqlite3.connect(directory / METADATA)
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray((directory / METADATA).read_bytes())
    data[page_size + 3 : page_size + 40] = b"\xff" * 37
    (directory / METADATA).write_bytes(data)
    assert any(METADATA in problem for problem in check(directory).problems)


def test_a_directory_in_use_is_left_alone(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with DirectoryLock(directory):
        assert main(["check", str(directory)]) == 1
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err


def test_a_directory_that_is_none_of_a_broker_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 1
    assert "is not a data directory of a broker" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_errors_are_described(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = segments(directory)[0]
    os.truncate(path, path.stat().st_size - 1)
    assert main(["check", str(directory)]) == 1
    said = capsys.readouterr()
    assert "wrong: " in said.err
    assert str(path) in said.err
    assert said.out.startswith("intact            no")


def test_a_read_only_metadata_store_refuses_to_change(directory: Path) -> None:
    metadata = LocalMetadataStore(directory / METADATA, SystemClock(), read_only=True)
    with pytest.raises(StorageError, match="readonly"):
        put(metadata, "/a", b"")
    metadata.close()


def delay(directory: Path, *, claimed_ms: int) -> None:
    """Record in the index that the second entry, which is not delayed, is due at ``claimed_ms``."""
    metadata = LocalMetadataStore(directory / METADATA, SystemClock())
    path = managed_ledger_path(TOPIC)
    stored = metadata.get(path)
    assert stored is not None
    value = json.loads(stored.value)
    value["properties"][INCARNATION_PROPERTY] = "-1:-1@1"
    put(metadata, path, json.dumps(value).encode())
    metadata.close()
    store = DelayedStore(directory / DELAYED)
    position = Position(value["ledgers"][0]["ledgerId"], 1)
    store.turn(str(TOPIC), "-1:-1@1", Request(None, [Delayed(claimed_ms, position)], position, [], None))
    store.close()


def test_an_index_of_delayed_messages_that_says_what_the_log_does_not_is_named(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    delay(directory, claimed_ms=5)
    code, found, _ = run()
    assert (code, found["losses"]) == (1, [])
    (problem,) = found["problems"]
    assert problem.startswith(str(directory / DELAYED))
    assert problem.endswith(":1 is due at 5, but its entry states 0")


def test_an_index_of_delayed_messages_that_agrees_is_intact(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    delay(directory, claimed_ms=0)
    assert run()[0] == 0


def test_a_damaged_index_of_delayed_messages_loses_nothing(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    delay(directory, claimed_ms=0)
    (directory / DELAYED).write_bytes(b"not a database" * 1000)
    code, found, _ = run()
    assert (code, found["losses"]) == (1, [])
    (problem,) = found["problems"]
    assert "rebuilds the index from the log" in problem
