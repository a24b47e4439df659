"""Lower limits for the simulation, because short runs never reach the real ones."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from magnetar.geo.origins import extent_table
from magnetar.pipeline import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_EXTENTS = 4
"""Number of extents in a packed block."""

LEDGER_ENTRIES = 8
"""Number of entries after which a ledger is closed."""

OPENINGS_MAX = 4
"""Number of links of a source that a task attaches at the same time."""


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Reduce the size of extent blocks, so that tables have several of them, and let links wait to be attached."""
    before = extent_table.BLOCK_EXTENTS, limits.OPENINGS_MAX
    extent_table.BLOCK_EXTENTS, limits.OPENINGS_MAX = BLOCK_EXTENTS, OPENINGS_MAX
    try:
        yield
    finally:
        extent_table.BLOCK_EXTENTS, limits.OPENINGS_MAX = before
