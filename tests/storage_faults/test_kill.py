"""A real process, killed under load: all entries reported as durable survive, in order."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from magnetar.base.real import SystemFiles
from magnetar.ledger.local import LocalStoreOptions
from magnetar.ledger.medium.local import LocalMedium
from magnetar.ledger.segments.check import check
from tests.unit.ledger.support import opened, read_all

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = LocalStoreOptions(segment_bytes=200_000)

WRITER = """
import asyncio, sys
from pathlib import Path
from magnetar.base.real import SystemFiles
from magnetar.ledger.local import LocalLedgerStore, LocalStoreOptions

async def main():
    store = LocalLedgerStore(
        Path(sys.argv[1]), SystemFiles(), asyncio.get_running_loop(), LocalStoreOptions(segment_bytes=200_000)
    )
    await store.open()
    ledgers = [store.create() for _ in range(3)]
    while True:
        for ledger_id in ledgers:
            first = store.length(ledger_id)
            entries = [b"%d:%d " % (ledger_id, number) * 20 for number in range(first, first + 5)]
            said = f"{ledger_id} {first + 5}\\n"
            store.append(ledger_id, entries, lambda error, said=said: sys.stdout.write(said) and sys.stdout.flush())
        await asyncio.sleep(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 500, 4000])
def test_a_killed_writer_has_lost_nothing_that_it_reported(tmp_path: Path, lines: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(lines)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.readlines()
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL

    reported: dict[int, int] = {}
    for line in said:
        if match := re.fullmatch(r"(\d+) (\d+)\n", line):  # the last line may be torn
            reported[int(match[1])] = int(match[2])
    assert reported
    assert check(LocalMedium(tmp_path, SystemFiles())).intact

    async def verify() -> None:
        async with opened(tmp_path, OPTIONS) as store:
            for ledger_id, length in reported.items():
                entries = await read_all(store, ledger_id, max_entries=1000, max_bytes=100_000)
                assert len(entries) >= length
                assert entries == [b"%d:%d " % (ledger_id, number) * 20 for number in range(len(entries))]

    asyncio.run(verify())
