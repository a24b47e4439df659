"""The garbage collector in a process with the objects of many tests."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def only_new_objects() -> Iterator[None]:
    """Let the collector look at objects only that are created in the block, which takes little time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
