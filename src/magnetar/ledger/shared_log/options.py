"""The limits of a store, and where the ids of its ledgers begin."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.base.errors import ConfigurationError

_MIB = 1024 * 1024
_SEGMENT_BYTES_MAX = 1024 * _MIB
"""Offsets in a segment have 32 bits, and its last group and its index come on top."""


@dataclass(frozen=True, slots=True)
class SharedLogOptions:
    """Limits of a store, and where its ids begin."""

    sync: bool = True
    """Whether an entry is reported after it is on the disk (``journalSyncData``), or when the kernel has it: then power
    loss takes the newest ones."""
    segment_bytes: int = 64 * _MIB
    """Size of a segment; trimmed entries give their space back when no entry of their segment is needed."""
    group_bytes: int = 8 * _MIB
    """Bytes of records that are written at once before they are synced; one run more may come on top."""
    tail_cache_bytes: int = 64 * _MIB
    """Memory for the newest entries, with what each of them takes beside its bytes."""
    table_cache_bytes: int = 16 * _MIB
    """Memory for the places of runs in sealed segments, and for what was noted with these runs."""
    read_threads: int = 2
    """Reads of entries that are no longer in memory, at the same time, where the medium blocks."""
    ledger_id_block: int = 512
    """Ledger ids reserved when the store is opened. A crash skips those that are left, and ids grow like the clock's
    milliseconds (see ``first_ledger_id`` of the broker): fewer than those that pass in a start."""
    ledger_id_block_max: int = 65_536
    """Ledger ids reserved at once as they are used, each time twice as many."""

    identity: str = ""
    """What tells this life of the cluster from others, if the directory has none yet; empty: it gets none."""
    first_ledger_id: int = 1
    """Where the ids of a store begin that has never given any."""
    named_ledger_id: int = 0
    """The highest id that the metadata names. Ids given from now on are greater, even if the log lost its files."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for what cannot work."""
        if not 0 < self.segment_bytes <= _SEGMENT_BYTES_MAX:
            message = f"segment_bytes is {self.segment_bytes}, must be in 1..{_SEGMENT_BYTES_MAX}"
            raise ConfigurationError(message)
