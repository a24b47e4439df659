"""Closing several things of which each may fail: one failure must not keep the others open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

log = structlog.get_logger(__name__)


def close_each(steps: Iterable[tuple[str, Callable[[], object]]], **context: object) -> None:
    """Run every step, in order; a step that raises is logged with its name and ``context``, and the next one follows.

    It never raises. A failed step leaves its part as a crash would: the next load starts from what is durable.
    """
    for name, step in steps:
        try:
            step()
        except Exception as error:
            # The root of one step's work: whatever is wrong with it, the other steps have to run.
            log.exception("close_failed", step=name, error=str(error), **context)
