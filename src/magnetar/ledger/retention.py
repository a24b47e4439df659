"""Which ledgers of a topic may be deleted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.base.position import Position

if TYPE_CHECKING:
    from magnetar.ledger.chain import LedgerChain

_MIB = 1024 * 1024
_MINUTE_MS = 60_000


def count_unneeded(chain: LedgerChain, consumed_through: Position, now_ms: int, retention: tuple[int, int]) -> int:
    """Return how many of the oldest ledgers nobody needs.

    Needed are the ledger that takes appends, every entry beyond ``consumed_through``, and the ledgers that retention
    keeps: ``(minutes, MiB)``, as in Pulsar. Retention does not keep a ledger that was closed so many minutes ago, nor
    one that is followed by so many MiB. -1 is for ever, or without bound.
    """
    unneeded = 0
    remaining = chain.size
    for ledger in chain.ledgers:
        remaining -= ledger.size
        consumed = not ledger.entries or Position(ledger.ledger_id, ledger.entries - 1) <= consumed_through
        if ledger.closed_ms is None or not consumed or is_retained(retention, now_ms - ledger.closed_ms, remaining):
            break
        unneeded += 1
    return unneeded


def is_retained(retention: tuple[int, int], closed_for_ms: int, size_behind: int) -> bool:
    """Whether retention keeps a ledger that was closed so long ago and is followed by this many bytes."""
    minutes, size_mib = retention
    expired = 0 <= minutes * _MINUTE_MS <= closed_for_ms
    over_size = 0 <= size_mib * _MIB <= size_behind
    return not expired and not over_size
