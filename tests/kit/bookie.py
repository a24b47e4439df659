"""The raw contents of a bookie's journal on disk, which no client and no admin API returns completely.

The journal is a header of 512 bytes and then records: ``i32 length, i64 ledger_id, i64 entry_id, i64 last confirmed,
i64 length of the ledger, u32 CRC32C, entry``. Padding between records has the length -0x100, followed by its own length
(BookKeeper's ``JournalChannel.java`` and ``Journal.java``, version 5 and later).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC = b"BKLG"
HEADER_BYTES = 512
VERSION_WITH_PADDINGS = 5
PADDING = -0x100

_read_length = struct.Struct(">i").unpack_from
_LENGTH_BYTES = 4
_read_place = struct.Struct(">qqqqI").unpack_from
_PLACE_BYTES = 36


def entries_on_disk(directory: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield ledger, entry id and bytes of all entries in the bookie's journal, in write order.

    The bookie may run; unflushed entries are missing then.
    """
    for journal in sorted(directory.rglob("*.txn"), key=lambda path: int(path.stem, 16)):
        yield from _entries(journal.read_bytes())


def _entries(journal: bytes) -> Iterator[tuple[int, int, bytes]]:
    magic, (version,) = journal[: len(MAGIC)], _read_length(journal, len(MAGIC))
    assert (magic, version >= VERSION_WITH_PADDINGS) == (MAGIC, True), (magic, version)
    at = HEADER_BYTES
    while at + _LENGTH_BYTES <= len(journal):
        (length,) = _read_length(journal, at)
        at += _LENGTH_BYTES
        if length == PADDING:
            (padding,) = _read_length(journal, at)
            at += _LENGTH_BYTES + padding
            continue
        if length <= 0 or at + length > len(journal):  # preallocated space, or an incomplete record
            return
        if length > _PLACE_BYTES:
            ledger_id, entry_id, _, _, _ = _read_place(journal, at)
            if entry_id >= 0:  # negative entry ids are internal to the bookie
                yield ledger_id, entry_id, journal[at + _PLACE_BYTES : at + length]
        at += length
