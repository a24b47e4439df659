"""``magnetar check --repair --give-up-data``: damaged topics open again; only unreadable entries are given up."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import StorageError
from magnetar.base.position import EARLIEST, Position
from magnetar.base.real import SystemClock, SystemFiles
from magnetar.broker.settings.data_directory import LEDGERS, METADATA
from magnetar.cli.main import main
from magnetar.cursor.store import CursorStore
from magnetar.ledger.agreement import bring_to_agreement, loss_boundaries, read_named_ledgers
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions
from magnetar.ledger.managed_ledger import ManagedLedger
from magnetar.ledger.rollover import ManagedLedgerConfig
from magnetar.metadata.local import LocalMetadataStore
from magnetar.metadata.resources import managed_ledger_path
from magnetar.offline.check import check
from tests.kit.stored import put
from tests.storage_faults.data_directory import CURSOR, ENTRIES, TOPIC, change_metadata, metadata_at, open_cursor
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from magnetar.cursor.cursor import Cursor

PATH = managed_ledger_path(TOPIC)
CURSOR_PATH = f"{PATH}/cursors/{quote_plus(CURSOR)}"


def overwrite(directory: Path, path: str, value: bytes) -> None:
    metadata = LocalMetadataStore(directory / METADATA, SystemClock())
    put(metadata, path, value)
    metadata.close()


def opened(directory: Path, look: Callable[[ManagedLedger, Cursor | None], object]) -> Position:
    """Open the topic as a broker does, call ``look``, and append an entry; return its position."""

    async def use() -> Position:
        clock = SystemClock()
        metadata = LocalMetadataStore(directory / METADATA, clock)
        store = LocalLedgerStore(directory / LEDGERS, SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions())
        await store.open()
        try:
            bring_to_agreement(store, metadata, read_named_ledgers(metadata))
            log = ManagedLedger.open(store, metadata, TOPIC, ManagedLedgerConfig(), clock)
            cursors = CursorStore(store, metadata, str(TOPIC), log)
            look(log, await open_cursor(cursors, store, metadata, TOPIC, CURSOR))
            position = log.append(ENTRIES[:1], lambda _position, _error: None)
            await barrier(store)
            log.close()
        finally:
            await store.close()
            metadata.close()
        return position

    return asyncio.run(use())


def boundaries(directory: Path) -> list[int]:
    metadata = LocalMetadataStore(directory / METADATA, SystemClock())
    try:
        return loss_boundaries(metadata)
    finally:
        metadata.close()


def shorten(directory: Path, lost: int = 5) -> Position:
    """Add entries to the ledger list that the log does not have; return the last of them."""
    stored = metadata_at(directory, PATH)
    first, second = stored["ledgers"]
    last = Position(second["ledgerId"], second["entries"] + lost - 1)
    listed = [first, {**second, "entries": second["entries"] + lost}]
    change_metadata(directory, PATH, {**stored, "ledgers": listed, "lastPosition": str(last)})
    return last


def test_a_log_that_is_too_short_is_accepted_and_its_positions_are_not_used_again(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    last = shorten(directory)
    before = metadata_at(directory, PATH)
    code, found, said = run("--repair")
    assert code == 1
    (repair,) = found["repairs"]
    assert repair["givesUp"] == f"5 entries, {last._replace(entry_id=last.entry_id - 4)} to {last}"
    assert repair["givesUp"] in said
    assert "--give-up-data" in said
    assert metadata_at(directory, PATH) == before, "nothing is given up without being asked"
    code, _, said = run("--repair", "--give-up-data")
    assert code == 0, said
    assert run()[1]["intact"]
    counts: list[int] = []
    position = opened(directory, lambda log, _: counts.append(log.entries))
    assert counts == [len(ENTRIES)]
    assert position.ledger_id > last.ledger_id
    assert boundaries(directory) == [last.ledger_id + 1], "others may hold the lost entries: nobody claims across them"
    (record,) = directory.glob("repaired-*.json")
    kept = json.loads(record.read_text())
    assert json.loads(kept["replaced"][PATH]) == before
    assert kept["repairs"] == [repair]


def test_a_subscription_that_cannot_be_read_starts_over_where_it_began(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    async def damage() -> int:
        metadata = LocalMetadataStore(directory / METADATA, SystemClock())
        store = LocalLedgerStore(directory / LEDGERS, SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions())
        await store.open()
        stored = metadata.get(CURSOR_PATH)
        assert stored is not None
        ledger_id = int(json.loads(stored.value)["cursorsLedgerId"])
        store.append(ledger_id, (b"",), lambda _: None, b"no record")
        await barrier(store)
        await store.close()
        metadata.close()
        return ledger_id

    ledger_id = asyncio.run(damage())
    began = metadata_at(directory, CURSOR_PATH)["markDeletePosition"]
    (repair,) = run("--repair")[1]["repairs"]
    assert repair["action"] == f"reset {CURSOR} to {began}, its first position"
    assert run("--repair", "--give-up-data")[0] == 0
    marks: list[tuple[str, int]] = []

    def look(log: ManagedLedger, cursor: Cursor | None) -> None:
        assert cursor is not None
        assert cursor.ledger_id != ledger_id
        mark = cursor.state.mark_delete_position
        marks.append((str(mark), log.count(mark, log.last_confirmed_entry) - cursor.state.individually_deleted.entries))

    opened(directory, look)
    assert marks == [(began, len(ENTRIES))], "every message comes again, none is skipped"
    assert check(directory).orphans == [], "the records that were given up are deleted"


@pytest.mark.parametrize("value", [b"{", b"[]", b"{}", b'{"cursorsLedgerId": "x"}'])
def test_a_subscription_whose_value_cannot_be_read_starts_at_the_earliest_entry(
    directory: Path, run: Callable[..., tuple[int, Any, str]], value: bytes
) -> None:
    overwrite(directory, CURSOR_PATH, value)
    assert run("--repair")[0] == 1
    assert run("--repair", "--give-up-data")[0] == 0
    marks: list[Position] = []

    def look(_: ManagedLedger, cursor: Cursor | None) -> None:
        assert cursor is not None
        marks.append(cursor.state.mark_delete_position)

    opened(directory, look)
    assert marks == [EARLIEST]


@pytest.mark.parametrize("other", ["a topic", "a subscription"])
def test_a_damaged_subscription_that_names_the_ledger_of_another_record_leaves_that_ledger(
    directory: Path, run: Callable[..., tuple[int, Any, str]], other: str
) -> None:
    named = {
        "a topic": metadata_at(directory, PATH)["ledgers"][0]["ledgerId"],
        "a subscription": metadata_at(directory, CURSOR_PATH)["cursorsLedgerId"],
    }
    damaged = {"cursorsLedgerId": named[other], "markDeletePosition": "?", "cursorProperties": {}}
    overwrite(directory, f"{PATH}/cursors/damaged", json.dumps(damaged).encode())
    assert run("--repair", "--give-up-data")[0] == 0
    seen: list[tuple[int, int]] = []

    def look(log: ManagedLedger, cursor: Cursor | None) -> None:
        assert cursor is not None
        seen.append((log.entries, cursor.state.individually_deleted.entries))

    opened(directory, look)
    assert seen == [(len(ENTRIES), 1)]


def test_a_subscription_that_names_a_ledger_of_entries_is_damaged(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    first = metadata_at(directory, PATH)["ledgers"][0]["ledgerId"]
    change_metadata(directory, CURSOR_PATH, {**metadata_at(directory, CURSOR_PATH), "cursorsLedgerId": first})
    code, found, _ = run()
    assert code == 1
    assert any(f"ledger {first} holds entries" in problem for problem in found["problems"])
    assert run("--repair", "--give-up-data")[0] == 0
    seen: list[int] = []
    opened(directory, lambda log, _: seen.append(log.entries))
    assert seen == [len(ENTRIES)]


@pytest.mark.parametrize("value", [b"{", b"{}", b'{"ledgers": [{}], "lastPosition": "1:1", "properties": {}}'])
def test_a_list_of_ledgers_that_cannot_be_read_is_made_anew_from_what_subscriptions_name(
    directory: Path, run: Callable[..., tuple[int, Any, str]], value: bytes
) -> None:
    first, second = (each["ledgerId"] for each in metadata_at(directory, PATH)["ledgers"])
    overwrite(directory, PATH, value)
    (repair,) = run("--repair")[1]["repairs"]
    assert f"ledgers {first} are kept" in repair["givesUp"]
    assert run("--repair", "--give-up-data")[0] == 0
    entries: list[int] = []
    position = opened(directory, lambda log, _: entries.append(log.entries))
    assert entries == [6]
    assert position.ledger_id > second
    assert second in check(directory).orphans, "nothing of the log is deleted"
    assert boundaries(directory) == [first + 1]


def test_a_property_that_cannot_be_read_is_removed_and_the_others_stay(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    stored = metadata_at(directory, PATH)
    change_metadata(directory, PATH, {**stored, "properties": {"magnetar.tombstones": "{", "mine": "x"}})
    (repair,) = run("--repair")[1]["repairs"]
    assert "other clusters may create deleted subscriptions again" in repair["givesUp"]
    assert run("--repair", "--give-up-data")[0] == 0
    assert metadata_at(directory, PATH) == {**stored, "properties": {"mine": "x"}}


def test_ledgers_that_nothing_lists_are_deleted_only_when_asked_for(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    stored = metadata_at(directory, PATH)
    orphan = stored["ledgers"][0]["ledgerId"]
    change_metadata(directory, PATH, {**stored, "ledgers": stored["ledgers"][1:]})
    with capture_logs() as logs:
        opened(directory, lambda _log, _cursor: None)
    assert [each["first"] for each in logs if each["event"] == "ledgers_not_listed"] == [orphan]
    assert orphan in check(directory).orphans, "a start keeps a ledger that may be data"
    code, found, said = run("--repair", "--give-up-data")
    assert (code, found["orphans"]) == (0, [orphan])
    assert f"1 ledgers that no topic lists take {found['orphans_bytes']} bytes" in said
    assert found["orphans_bytes"] > 0
    code, _, said = run("--repair", "--delete-unlisted")
    assert code == 0, said
    (record,) = directory.glob("repaired-*.json")
    assert str(orphan) in json.loads(record.read_text())["repairs"][0]["givesUp"]
    listed = [each["ledgerId"] for each in metadata_at(directory, PATH)["ledgers"]]
    kept: list[int] = []
    opened(directory, lambda log, _cursor: kept.extend(each.ledger_id for each in log.ledgers()))
    assert kept == listed
    report = check(directory)
    assert (report.orphans, report.orphans_bytes, report.intact) == ([], 0, True)


def test_ledgers_that_nothing_lists_are_kept_while_something_is_wrong(
    directory: Path, run: Callable[..., tuple[int, Any, str]]
) -> None:
    orphan = metadata_at(directory, PATH)["ledgers"][0]["ledgerId"]
    overwrite(directory, PATH, b"{")
    code, _, said = run("--repair", "--delete-unlisted")
    assert code == 1
    assert "the ledgers may belong to a damaged topic" in said
    assert orphan in check(directory).orphans
    assert not list(directory.glob("repaired-*"))


def test_an_intact_directory_is_left_as_it_is(directory: Path, run: Callable[..., tuple[int, Any, str]]) -> None:
    before = metadata_at(directory, PATH)
    assert run("--repair", "--give-up-data")[0] == 0
    assert metadata_at(directory, PATH) == before
    assert not list(directory.glob("repaired-*"))
    assert main(["check", str(directory), "--give-up-data"]) != 0


def test_a_ledger_id_that_was_used_before_is_refused(directory: Path) -> None:
    stored = metadata_at(directory, PATH)
    change_metadata(directory, PATH, {**stored, "lastPosition": "9999999999999:4"})
    with pytest.raises(StorageError, match="was used before"):
        opened(directory, lambda _log, _cursor: None)
