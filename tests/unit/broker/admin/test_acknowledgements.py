"""The export of the acknowledgement state of a subscription is complete, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.position import EARLIEST, Position
from magnetar.broker.admin import acknowledgements
from magnetar.broker.admin.acknowledgements import page_steps
from magnetar.broker.loop.slices import at_once
from magnetar.cursor.state import CursorState
from magnetar.wire.entries.ack_set import words_to_int
from tests.unit.cursor.fakes import Log

if TYPE_CHECKING:
    from magnetar.admin.models.acknowledgements import AcknowledgementState


def log() -> Log:
    """Return a log of two ledgers, 5 and 8, with 30 entries each."""
    made = Log(first_ledger_id=5, step=3)
    for _ in range(2):
        made.roll()
        for _ in range(30):
            made.append()
    return made


def pages(state: CursorState) -> list[AcknowledgementState]:
    found = [at_once(page_steps(state, EARLIEST))]
    while found[-1].next is not None:
        found.append(at_once(page_steps(state, Position.parse(found[-1].next))))
    return found


@pytest.mark.parametrize("page_max", [1, 2, 3, 10_000])
@pytest.mark.parametrize("step", [1, 500])
def test_all_pages_have_each_range_and_each_batch_once(
    page_max: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acknowledgements, "PAGE_MAX", page_max)
    monkeypatch.setattr(acknowledgements, "_STEP", step)
    state = CursorState(log(), Position(5, 1))
    state.acknowledge([Position(5, 3), Position(5, 4), Position(5, 9), *(Position(8, entry) for entry in (0, 20, 29))])
    partial = {Position(5, 6): 3, Position(5, 20): 1 << 70 | 1, Position(8, 10): 5, Position(8, 11): 5}
    for position, remaining in partial.items():
        state.acknowledge_batch(position, remaining)
    found = pages(state)
    assert [each for page in found for each in page.ranges] == [
        [5, 3, 4],
        [5, 9, 9],
        [8, 0, 0],
        [8, 20, 20],
        [8, 29, 29],
    ]
    batches = [(Position.parse(key), words_to_int(words)) for page in found for key, words in page.batches.items()]
    assert batches == list(partial.items())
    assert {page.mark_delete_position for page in found} == {Position(5, 1)}
    assert max(max(len(page.ranges), len(page.batches)) for page in found) <= page_max + step - 1


def test_a_state_without_holes_is_one_page() -> None:
    state = CursorState(log(), Position(5, 12))
    assert [page.to_json() for page in pages(state)] == [{"markDeletePosition": "5:12", "ranges": [], "batches": {}}]
