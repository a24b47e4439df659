"""The work of one turn of the event loop is bounded, and a client that asks for little does not wait for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.turns import LIGHT_S, LIGHT_SHARE, TURN_ITEMS_MAX, TURN_S, LoopTurns, Share
from magnetar.sim.loop import HandClock, HandLoop

if TYPE_CHECKING:
    from collections.abc import Callable


class Stage:
    """Turns on a loop, and what was done in which of them."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.turns = LoopTurns(self.loop, HandClock(self.loop))
        self.done: list[tuple[int, str]] = []
        self._turn = 0

    def work(self, name: str, cost_s: float = 0.0) -> Callable[[], None]:
        def do() -> None:
            self.done.append((self._turn, name))
            self.loop.elapsed_s += cost_s

        return do

    def count_turns(self) -> None:
        """Count the turns of the loop for as long as something happens in them."""
        self._turn += 1
        if self._turn < 20:
            self.loop.call_soon(self.count_turns)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_work_is_done_in_order_in_as_many_turns_as_it_takes(stage: Stage) -> None:
    for name in "abcde":
        stage.turns.soon(stage.work(name, TURN_S / 2), Share())
    assert not stage.done
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    assert [name for _, name in stage.done] == list("abcde")
    turns = [turn for turn, _ in stage.done]
    assert [turns.count(each) for each in sorted(set(turns))] == [2, 2, 1]


def test_work_that_asks_for_more_turns_gets_one_in_each_turn_of_the_loop(stage: Stage) -> None:
    """Two chains of turns in one turn of the loop would be four in the next."""
    share = Share()

    def part() -> None:
        stage.work("part", TURN_S)()
        if len(stage.done) < 10:
            stage.turns.soon(part, share)

    stage.turns.soon(part, share)
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    turns = [turn for turn, _ in stage.done]
    assert len(turns) == 10
    assert len(set(turns)) == 10


def test_what_leaves_something_over_is_behind_everybody_else(stage: Stage) -> None:
    left, share = 3, Share()

    def part() -> None:
        nonlocal left
        stage.work("part")()
        left -= 1
        if left:
            stage.turns.soon(part, share)

    stage.turns.soon(part, share)
    stage.turns.soon(stage.work("other"), Share())
    stage.loop.spin()
    assert [name for _, name in stage.done] == ["part", "other", "part", "part"]


def test_no_work_begins_in_a_turn_that_is_over(stage: Stage) -> None:
    assert stage.turns.begin(stage.loop.time())
    assert not stage.turns.is_over()
    stage.loop.elapsed_s += TURN_S
    assert stage.turns.is_over()
    assert not stage.turns.begin(stage.loop.time())
    stage.loop.spin()
    assert stage.turns.begin(stage.loop.time()), "this is another turn"


def test_what_was_left_over_counts_in_the_turn_in_which_it_is_done(stage: Stage) -> None:
    stage.turns.soon(stage.work("left", TURN_S), Share())
    begun: list[bool] = []
    stage.loop.call_soon(lambda: begun.append(stage.turns.begin(stage.loop.time())))
    stage.loop.spin()
    assert begun == [False]


def test_quick_work_is_bounded_by_its_number(stage: Stage) -> None:
    for _ in range(TURN_ITEMS_MAX + 2):
        stage.turns.soon(stage.work("quick"), Share())
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    turns = [turn for turn, _ in stage.done]
    assert len(turns) == TURN_ITEMS_MAX + 2
    assert max(turns.count(each) for each in set(turns)) <= TURN_ITEMS_MAX + 1


def test_an_error_of_one_does_not_keep_the_others_from_being_done(stage: Stage) -> None:
    stage.turns.soon(lambda: 1 // 0, Share())  # type: ignore[arg-type]
    stage.turns.soon(stage.work("other"), Share())
    stage.loop.spin()
    assert [name for _, name in stage.done] == ["other"]
    assert [type(each["exception"]) for each in stage.loop.problems] == [ZeroDivisionError]


def test_work_that_is_added_in_a_turn_comes_in_the_next_one(stage: Stage) -> None:
    """What a turn has written goes out before more is done."""

    def again() -> None:
        stage.work("first")()
        stage.turns.soon(stage.work("second"), Share())

    stage.turns.soon(again, Share())
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    (first, _), (second, _) = stage.done
    assert second > first


def test_a_client_that_asks_for_little_comes_before_many_that_ask_for_much(stage: Stage) -> None:
    busy, little = [Share() for _ in range(10)], Share()
    waited: list[int] = []

    def flood(number: int) -> None:
        stage.work("busy", TURN_S)()
        if len(stage.done) < 100:
            stage.turns.soon(lambda: flood(number), busy[number])

    def ask() -> None:
        asked_at = len(stage.done)

        def answer() -> None:
            stage.loop.elapsed_s += TURN_S / 100
            waited.append(len(stage.done) - asked_at)

        stage.turns.soon(answer, little)
        if len(waited) < 5:
            stage.loop.call_later(5 * TURN_S, ask)

    for number in range(len(busy)):
        stage.turns.soon(lambda number=number: flood(number), busy[number])  # type: ignore[misc]
    stage.loop.call_later(20 * TURN_S, ask)
    stage.loop.spin()
    assert len(waited) >= 5
    assert max(waited) < len(busy) / 2, waited


def test_those_who_ask_for_much_have_a_part_of_each_turn(stage: Stage) -> None:
    light = [Share() for _ in range(10)]
    heavy = Share()

    def little(number: int) -> None:
        stage.work("little", LIGHT_S)()
        if len(stage.done) < 200:
            light[number] = Share()
            stage.loop.call_soon(lambda: stage.turns.soon(lambda: little(number), light[number]))

    def much() -> None:
        stage.work("much", TURN_S)()
        if len(stage.done) < 200:
            stage.turns.soon(much, heavy)

    stage.turns.soon(much, heavy)
    for number in range(len(light)):
        stage.turns.soon(lambda number=number: little(number), light[number])  # type: ignore[misc]
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    turns = [turn for turn, _ in stage.done]
    by_turn = [[name for turn, name in stage.done if turn == each] for each in sorted(set(turns))]
    assert all("much" in names for names in by_turn[1:10]), by_turn
    assert all("little" in names for names in by_turn[1:10]), by_turn


def test_a_client_asks_for_little_again_once_it_has_asked_for_nothing(stage: Stage) -> None:
    once, other = Share(), Share()

    def order() -> list[str]:
        stage.done.clear()
        stage.turns.soon(stage.work("once"), once)
        stage.turns.soon(stage.work("other"), other)
        stage.loop.spin()
        return [name for _, name in stage.done]

    stage.turns.soon(stage.work("much", TURN_S), once)
    stage.loop.spin()
    assert order() == ["other", "once"]
    stage.loop.elapsed_s += (TURN_S - LIGHT_S) / LIGHT_SHARE + 0.001
    assert order() == ["once", "other"]


def test_a_piece_of_work_for_a_client_that_asks_for_little_is_short(stage: Stage) -> None:
    parts: list[int] = []

    def pieces(count: int) -> None:
        done = 0
        while done < count:
            stage.loop.elapsed_s += LIGHT_S / 2
            done += 1
            if stage.turns.is_over():
                break
        parts.append(done)
        if done < count:
            stage.turns.soon(lambda: pieces(count - done), share)

    share = Share()
    stage.turns.soon(lambda: pieces(30), share)
    stage.loop.spin()
    assert parts[0] == 2
    assert sum(parts) == 30
    assert max(parts) == 2 * TURN_S / LIGHT_S


def test_work_of_one_share_is_done_in_order(stage: Stage) -> None:
    share = Share()
    for name in "abcdef":
        stage.turns.soon(stage.work(name, TURN_S), share)
    stage.loop.spin()
    assert [name for _, name in stage.done] == list("abcdef")
