"""Numbers that may be unknown. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def sum_if_known(parts: Iterable[int | None]) -> int | None:
    """Return a sum; None, unknown, if a part of it is."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
