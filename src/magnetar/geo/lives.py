"""Whether positions of a cluster may be told from those of an earlier life of the same cluster. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.base.life import Life
    from magnetar.base.position import Position


def may_be_mixed_up(other: Life, known: Life, brought: Position) -> bool:
    """Whether positions of ``other``, up to ``brought``, may be taken for positions of the life that is known."""
    return other.identity != known.identity and brought.ledger_id >= known.first_ledger_id


def may_follow(life: Life, known: Life | None) -> bool:
    """Whether ``life`` is noted instead of ``known`` because a third cluster names it; None: no life is known.

    The third cluster may know an earlier life than ``known``. Of two lives the later one has the higher first ledger
    id, unless the clock was behind. Only the cluster itself can announce a later life with a lower one.
    """
    return known is None or life.first_ledger_id > known.first_ledger_id


def reason_against(life: Life, known: str | None, newest: Position) -> str | None:
    """Return why nothing of ``life`` can be taken, None if all of it can.

    ``known`` is the identity of the life that positions of the cluster are known of, None where no life was ever
    named: then nothing can be told, and ``life`` is taken for the one. ``newest`` is the highest position known.
    """
    if known is None or known == life.identity or life.first_ledger_id > newest.ledger_id:
        return None
    return (
        f"it lost its data and gives ledger ids from {life.first_ledger_id} on again, and entries of its earlier life "
        f"are known up to {newest}: new entries would be taken for these; start it with an empty data directory "
        f"and firstLedgerId={newest.ledger_id + 1} or higher"
    )
