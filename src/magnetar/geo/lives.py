"""Checks that positions of a cluster are not confused with those of an earlier life of the same cluster. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.base.life import Life
    from magnetar.base.position import Position


def may_be_mixed_up(other: Life, known: Life, brought: Position) -> bool:
    """Return whether positions of ``other``, up to ``brought``, could be confused with positions of the known life."""
    return other.identity != known.identity and brought.ledger_id >= known.first_ledger_id


def may_follow(life: Life, known: Life | None) -> bool:
    """Return whether ``life``, named by a third cluster, replaces ``known``; None: no life is known.

    The third cluster may know an earlier life than ``known``. Of two lives the later one has the higher first ledger
    id, unless the clock was behind. Only the cluster itself can announce a later life with a lower one.
    """
    return known is None or life.first_ledger_id > known.first_ledger_id


def reason_against(life: Life, known: str | None, newest: Position) -> str | None:
    """Return the reason for refusing positions of ``life``; None if they can be accepted.

    ``known`` is the identity of the known life, None if no life was ever named: then lives cannot be distinguished, and
    ``life`` is taken for the known one. ``newest`` is the highest known position.
    """
    if known is None or known == life.identity or life.first_ledger_id > newest.ledger_id:
        return None
    return (
        f"it lost its data and gives ledger ids from {life.first_ledger_id} on again, and entries of its earlier life "
        f"are known up to {newest}: new entries would be taken for these; start it with an empty data directory "
        f"and firstLedgerId={newest.ledger_id + 1} or higher"
    )
