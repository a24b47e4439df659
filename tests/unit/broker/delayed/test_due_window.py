"""A window returns every entry of the index once, in order, despite additions during page reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.position import Position
from magnetar.broker.delayed import window as windows
from magnetar.broker.delayed.window import FIRST, LAST, Delayed, DueWindow

PAGE = 8


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "PAGE_MAX", PAGE)
    monkeypatch.setattr(windows, "LATE_MAX", PAGE)


def delayed(deliver_at_ms: int, entry_id: int) -> Delayed:
    return Delayed(deliver_at_ms, Position(1, entry_id))


def page_after(index: list[Delayed], after: Delayed) -> list[Delayed]:
    return [entry for entry in sorted(index) if entry > after][:PAGE]


def serve(window: DueWindow, index: list[Delayed]) -> None:
    while window.wants_page:
        epoch, page = window.epoch, page_after(index, window.begin_page())
        window.page(epoch, page, is_last=len(page) < PAGE)


steps = st.lists(
    st.tuples(st.just("add"), st.integers(0, 50))
    | st.tuples(st.just("ask"), st.just(0))
    | st.tuples(st.just("answer"), st.booleans())
    | st.tuples(st.just("take"), st.integers(1, 5)),
    max_size=80,
)


@given(before=st.lists(st.integers(0, 50), max_size=30), steps=steps)
def test_each_entry_is_taken_once_and_in_order_but_for_what_comes_late(
    before: list[int], steps: list[tuple[str, int]]
) -> None:
    index = [delayed(at, number) for number, at in enumerate(before)]
    window, taken, now = DueWindow(), [], 0
    window.restart(complete=not index)
    asked: list[tuple[int, list[Delayed]]] = []
    for step, value in steps:
        if step == "add":
            entry = delayed(value, len(index))
            index.append(entry)
            window.add(entry)
        elif step == "ask" and window.wants_page:
            asked.append((window.epoch, page_after(index, window.begin_page())))
        elif step == "answer" and asked:
            epoch, page = asked.pop()
            if value:
                window.page(epoch, page, is_last=len(page) < PAGE)
            else:
                window.no_page(epoch)
        elif step == "take":
            now += value
            got = window.take(now, value)
            assert got == sorted(got)
            assert all(entry.deliver_at_ms <= now for entry in got)
            taken += got
            assert {entry for entry in index if entry <= window.taken_through} <= set(taken)
    for epoch, page in asked:
        window.page(epoch, page, is_last=len(page) < PAGE)
    rest: list[Delayed] = []
    for _ in range(len(index) + 1):
        serve(window, index)
        rest += window.take(50, 3)
    assert sorted(index) == sorted([*taken, *rest])
    assert window.taken_through == max([FIRST, *index])
    assert len(window._entries) == 0


runs = st.lists(st.integers(0, 50), min_size=1, max_size=12)
cut_steps = st.lists(
    st.tuples(st.sampled_from(["add", "cut"]), runs)
    | st.tuples(st.just("ask"), st.just([0]))
    | st.tuples(st.just("answer"), st.just([0]))
    | st.tuples(st.just("take"), st.lists(st.integers(1, 5), min_size=1, max_size=1)),
    max_size=80,
)


@given(steps=cut_steps)
def test_no_entry_is_lost_when_a_window_is_cut(steps: list[tuple[str, list[int]]]) -> None:
    """An entry is in the store before the next page begins. Entries may be taken again."""
    index: list[Delayed] = []
    window, taken, now = DueWindow(), list[Delayed](), 0
    window.restart(complete=True)
    asked: list[tuple[int, list[Delayed]]] = []
    for step, values in steps:
        if step in ("add", "cut"):
            run = [delayed(at, len(index) + number) for number, at in enumerate(values)]
            index += run
            if step == "cut":
                window.cut(min(run))
            else:
                for entry in run:
                    window.add(entry)
        elif step == "ask" and window.wants_page:
            asked.append((window.epoch, page_after(index, window.begin_page())))
        elif step == "answer" and asked:
            epoch, page = asked.pop(0)
            window.page(epoch, page, is_last=len(page) < PAGE)
        elif step == "take":
            now += values[0]
            taken += window.take(now, values[0])
            assert {entry for entry in index if entry <= window.taken_through} <= set(taken)
    for epoch, page in asked:
        window.page(epoch, page, is_last=len(page) < PAGE)
    for _ in range(2 * len(index) + 1):
        serve(window, index)
        taken += window.take(50, 3)
    assert set(index) == set(taken)


@given(st.lists(st.integers(0, 9), min_size=3 * PAGE, max_size=6 * PAGE))
def test_it_never_holds_more_than_two_pages(times: list[int]) -> None:
    window = DueWindow()
    window.restart(complete=True)
    index = [delayed(at, number) for number, at in enumerate(times)]
    for entry in index:
        window.add(entry)
        assert len(window._entries) <= 2 * PAGE
    taken: list[Delayed] = []
    while window.wants_page or window.next_due_ms is not None:
        serve(window, index)
        taken += window.take(9, 5)
    assert taken == sorted(index)


def test_a_page_of_before_a_restart_is_of_no_use() -> None:
    window = DueWindow()
    window.restart(complete=False)
    epoch = window.epoch
    window.begin_page()
    window.restart(complete=False)
    window.page(epoch, [delayed(1, 1)], is_last=True)
    assert (window.take(5, 5), window.wants_page) == ([], True)


def test_an_entry_that_comes_late_holds_back_what_counts_as_taken() -> None:
    window = DueWindow()
    window.restart(complete=True)
    window.add(delayed(10, 1))
    assert window.take(10, 5) == [delayed(10, 1)]
    assert window.taken_through == delayed(10, 1)
    window.add(delayed(5, 2))
    assert window.taken_through < delayed(5, 2)
    assert window.take(10, 5) == [delayed(5, 2)]
    assert window.taken_through == delayed(10, 1)
    assert window.taken_through < LAST
