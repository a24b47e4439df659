"""The complete acknowledgement state of a subscription, in pages."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from magnetar.admin.models.acknowledgements import AcknowledgementState
from magnetar.base.position import LATEST
from magnetar.wire.entries.ack_set import int_to_words

if TYPE_CHECKING:
    from collections.abc import Generator

    from magnetar.base.position import Position
    from magnetar.cursor.state import CursorState

PAGE_MAX = 10_000
"""Ranges of a page, and batches of a page."""

_STEP = 500
"""Ranges or batches that are converted in one step."""


def page_steps(state: CursorState, after: Position) -> Generator[None, None, AcknowledgementState]:
    """Return the state after a position, or the first page of it; in steps.

    The state may change between the steps. Then the page has what the state had in one of them.
    """
    page = AcknowledgementState(mark_delete_position=state.mark_delete_position)
    reached = after
    while len(page.ranges) < PAGE_MAX:
        part = list(islice(state.individually_deleted.after(reached), _STEP))
        page.ranges += [[first.ledger_id, first.entry_id, last.entry_id] for first, last in part]
        if len(part) < _STEP:
            reached = LATEST
            break
        reached = part[-1].last
        yield
    batches = state.partial_batches_in(after, reached)
    if len(batches) > PAGE_MAX:
        reached = batches[PAGE_MAX - 1][0]
        page.ranges = [each for each in page.ranges if (each[0], each[1]) < reached]
    for index, (position, remaining) in enumerate(batches[:PAGE_MAX], 1):
        page.batches[str(position)] = int_to_words(remaining)
        if index % _STEP == 0:
            yield
    page.next = None if reached == LATEST else str(reached)
    return page
