"""Lower limits for the simulation, because short runs never reach the real ones."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from magnetar.geo.origins import extent_table

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_EXTENTS = 4
"""Number of extents in a packed block."""


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Reduce the size of extent blocks, so that tables have several of them."""
    before, extent_table.BLOCK_EXTENTS = extent_table.BLOCK_EXTENTS, BLOCK_EXTENTS
    try:
        yield
    finally:
        extent_table.BLOCK_EXTENTS = before
