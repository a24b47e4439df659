"""Limits of the software that a short world never reaches are small in the simulation."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from magnetar.geo.origins import extent_table

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK_EXTENTS = 4
"""Extents of a packed block."""


@contextlib.contextmanager
def small_limits() -> Iterator[None]:
    """Have blocks of a few extents, so that tables have several of them."""
    before, extent_table.BLOCK_EXTENTS = extent_table.BLOCK_EXTENTS, BLOCK_EXTENTS
    try:
        yield
    finally:
        extent_table.BLOCK_EXTENTS = before
