from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import DataLossError, ManagedLedgerFencedError, StorageError
from magnetar.base.position import EARLIEST
from magnetar.ledger.chain_recovery import CLOCK_SET_MS
from magnetar.metadata.resources import managed_ledger_path
from tests.kit.stored import put
from tests.unit.ledger.managed import TOPIC, ledger_environment
from tests.unit.ledger.support import barrier

if TYPE_CHECKING:
    from pathlib import Path


def test_entries_that_were_being_written_when_the_topic_was_closed_are_not_taken_for_older_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            first = await environment.append(ledger, [b"a"])
            environment.clock.seconds += 10
            ledger.append([b"b"], lambda *_: None)
            ledger.close()
            await barrier(environment.store)
            again = environment.open()
            assert again.entries == 2
            assert again.position_older_than(5) < first
            environment.clock.seconds += 6
            assert again.position_older_than(5) == again.last_confirmed_entry

    asyncio.run(scenario())


def test_a_list_without_append_times_opens_and_ages_count_from_the_closing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            first = await environment.append(ledger, [b"a"])
            environment.clock.seconds += 10
            ledger.close()
            await barrier(environment.store)
            path = managed_ledger_path(TOPIC)
            stored = environment.metadata.get(path)
            assert stored is not None
            listed = json.loads(stored.value)
            assert listed["ledgers"][0].pop("appendedBy") == environment.now_ms - 10_000 + 1
            put(environment.metadata, path, json.dumps(listed).encode(), stored.version)
            environment.clock.seconds += 5 + CLOCK_SET_MS / 1000  # the machine may have started again
            ledger = environment.open()
            assert (ledger.age_of(first), ledger.has_recorded(first)) == (5.0, True)
            assert ledger.position_older_than(4) == first < ledger.next_position(first)
            assert ledger.position_older_than(5) < first == ledger.position_older_than(5, inclusive=True)

    asyncio.run(scenario())


def test_additional_entries_of_the_store_count_and_missing_ones_are_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            await environment.append(ledger, [b"x"])
            last = await environment.append(ledger, [b"x"])
            crashed = environment.open()  # the list still has no entry count
            assert crashed.last_confirmed_entry == last
            crashed.set_property("key", "value")  # writes a list with the entry count
            environment.store.delete(last.ledger_id)
            with pytest.raises(DataLossError, match=f"ends at {last.ledger_id}:-1, entries up to {last} were durable"):
                environment.open()
            fenced: list[StorageError] = []
            ledger.observe_fencing(fenced.append)
            for _ in range(2):
                with pytest.raises(ManagedLedgerFencedError, match="another writer has its list of ledgers"):
                    ledger.set_property("key", "from an owner that lost the topic")
            assert len(fenced) == 1

    asyncio.run(scenario())


def test_a_ledger_that_was_listed_but_never_written_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with ledger_environment(tmp_path) as environment:
            ledger = environment.open()
            with monkeypatch.context() as crash:
                crash.setattr(environment.store, "append", lambda *_, **__: 0)
                ledger.append([b"lost"], lambda _position, _error: None)
            again = environment.open()
            assert again.entries == 0
            assert again.last_confirmed_entry == EARLIEST

    asyncio.run(scenario())
