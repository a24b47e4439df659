"""The store compared with a dictionary, for random operations."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.base.real import SystemFiles
from magnetar.ledger.local import LocalLedgerStore
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.segments.check import check
from magnetar.ledger.store import Run
from tests.unit.ledger.support import SMALL, append, barrier, read_all, runs_of


@dataclass
class Model:
    """The expected contents of a ledger."""

    entries: list[bytes] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    trimmed_before: int = 0
    sealed: bool = False


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(tempfile.mkdtemp(prefix="magnetar-store-"))
        self.models: dict[int, Model] = {}
        self.ever = 0
        self.options = replace(SMALL, segment_bytes=600, sync=False)
        self.open()

    def open(self) -> None:
        self.store = LocalLedgerStore(self.directory, SystemFiles(), self.loop, self.options)
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        await self.store.open()

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        assert check(LocalMedium(self.directory, SystemFiles())).problems == ()
        shutil.rmtree(self.directory)

    def any_ledger(self, data: st.DataObject) -> tuple[int, Model]:
        return data.draw(st.sampled_from(sorted(self.models.items(), key=lambda item: item[0])))

    @rule(size=st.integers(0, 90), count=st.integers(1, 4), annotation=st.binary(max_size=3))
    def create_with_a_run(self, size: int, count: int, annotation: bytes) -> None:
        ledger_id = self.store.create()
        assert ledger_id > self.ever
        self.ever = ledger_id
        self.models[ledger_id] = Model()
        self._append(ledger_id, [b"f" * size] * count, annotation)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), entries=st.lists(st.binary(max_size=90), min_size=1, max_size=5), note=st.binary(max_size=3))
    def append(self, data: st.DataObject, entries: list[bytes], note: bytes) -> None:
        ledger_id, model = self.any_ledger(data)
        if not model.sealed:
            self._append(ledger_id, entries, note)

    @precondition(lambda self: self.models)
    @rule(data=st.data(), bound=st.integers(0, 40))
    def trim(self, data: st.DataObject, bound: int) -> None:
        ledger_id, model = self.any_ledger(data)
        model.trimmed_before = max(model.trimmed_before, min(bound, len(model.entries)))
        self.store.trim(ledger_id, bound)

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        ledger_id, model = self.any_ledger(data)
        model.sealed = True
        self.store.seal(ledger_id)

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ledger_id, _ = self.any_ledger(data)
        del self.models[ledger_id]
        self.store.delete(ledger_id)

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.store.close())
        assert check(LocalMedium(self.directory, SystemFiles())).problems == ()
        self.open()

    @rule()
    def reopen_as_if_killed(self) -> None:
        self.loop.run_until_complete(barrier(self.store))
        copy = Path(tempfile.mkdtemp(prefix="magnetar-store-"))
        shutil.copytree(self.directory, copy, dirs_exist_ok=True)
        self.loop.run_until_complete(self.store.close())
        shutil.rmtree(self.directory)
        self.directory = copy
        self.open()

    @precondition(lambda self: self.models)
    @rule(data=st.data(), max_entries=st.integers(1, 5))
    def read(self, data: st.DataObject, max_entries: int) -> None:
        ledger_id, model = self.any_ledger(data)
        first = model.trimmed_before
        self.loop.run_until_complete(barrier(self.store))
        found = self.loop.run_until_complete(read_all(self.store, ledger_id, first, max_entries=max_entries))
        assert found == model.entries[first:]

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def list_runs(self, data: st.DataObject) -> None:
        ledger_id, model = self.any_ledger(data)
        self.loop.run_until_complete(barrier(self.store))
        expected = [run for run in model.runs if run.first_entry_id + run.count > model.trimmed_before]
        assert self.loop.run_until_complete(runs_of(self.store, ledger_id)) == expected

    @invariant()
    def ledgers_and_lengths_agree(self) -> None:
        assert self.store.list() == sorted(self.models)
        assert {each: self.store.length(each) for each in self.models} == {
            each: len(model.entries) for each, model in self.models.items()
        }

    def _append(self, ledger_id: int, entries: list[bytes], note: bytes) -> None:
        model = self.models[ledger_id]
        first = self.loop.run_until_complete(append(self.store, ledger_id, entries, note))
        assert first == len(model.entries)
        model.entries += entries
        model.runs.append(Run(first, len(entries), note))


TestStoreAgainstModel = StoreMachine.TestCase
TestStoreAgainstModel.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
