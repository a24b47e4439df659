"""The work of one turn is limited, and a client with few requests does not wait for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.loop.turns import LEVELS_S, PAUSE_S, TURN_ITEMS_MAX, TURN_S, LoopTurns, Share
from magnetar.sim.virtual.loop import HandClock, HandLoop

if TYPE_CHECKING:
    from collections.abc import Callable


class Stage:
    """Turns on a loop, with the work done in each."""

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
        """Count the turns of the loop while it is active."""
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
    """Two chains of turns in one turn of the loop would become four in the next."""
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


def test_unfinished_work_comes_after_all_other_work(stage: Stage) -> None:
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


def test_remaining_work_counts_in_the_turn_that_does_it(stage: Stage) -> None:
    stage.turns.soon(stage.work("left", TURN_S), Share())
    begun: list[bool] = []
    stage.loop.call_soon(lambda: begun.append(stage.turns.begin(stage.loop.time())))
    stage.loop.spin()
    assert begun == [False]


def test_work_that_follows_a_turn_counts_in_it(stage: Stage) -> None:
    share = Share()

    def ask(name: str) -> None:
        stage.work(name)()
        stage.turns.charge(TURN_S / 2)

    for name in "abcd":
        stage.turns.soon(lambda name=name: ask(name), share)  # type: ignore[misc]
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    turns = [turn for turn, _ in stage.done]
    assert [turns.count(each) for each in sorted(set(turns))] == [2, 2]
    assert share.had_s == pytest.approx(2 * TURN_S)
    assert stage.turns.begin(stage.loop.time()), "it counts in one turn only"
    stage.turns.charge(TURN_S)
    assert not stage.turns.begin(stage.loop.time())


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
    """The output of a turn is sent before the next work."""

    def again() -> None:
        stage.work("first")()
        stage.turns.soon(stage.work("second"), Share())

    stage.turns.soon(again, Share())
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    (first, _), (second, _) = stage.done
    assert second > first


class Client:
    """A client that requests work of ``cost_s``, ``rate`` times a second or continuously, and its waiting times."""

    def __init__(self, stage: Stage, cost_s: float, rate: float = 0.0) -> None:
        self._stage, self._cost_s, self._rate = stage, cost_s, rate
        self._share = Share()
        self._asked: list[float] = []
        self._is_waiting = False
        self.waits: list[float] = []

    def start(self) -> None:
        """Start requesting."""
        self._ask(self._stage.loop.time())

    def _ask(self, due: float) -> None:
        loop = self._stage.loop
        self._asked.append(due)
        if self._rate:
            while due + 1 / self._rate <= loop.time():
                due += 1 / self._rate
                self._asked.append(due)
            if due < END_S:
                loop.call_at(due + 1 / self._rate, self._ask, due + 1 / self._rate)
        self._wait()

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._stage.turns.soon(self._go_on, self._share)

    def _go_on(self) -> None:
        loop = self._stage.loop
        self._is_waiting = False
        while self._asked:
            loop.elapsed_s += self._cost_s
            self.waits.append(loop.time() - self._asked.pop(0))
            if not self._rate and loop.time() < END_S:
                self._asked.append(loop.time())
            if self._stage.turns.is_over():
                break
        if self._asked:
            self._wait()


END_S = 2.0
"""The end of the clients."""


def run(stage: Stage) -> None:
    while stage.loop.time() < END_S:
        stage.loop.advance(0.0005)


@pytest.mark.parametrize("rate", [100, 1000])
def test_a_client_that_asks_for_little_does_not_notice_many_that_ask_without_end(stage: Stage, rate: float) -> None:
    """Each of the many has a smaller share of the processor than it has."""
    little = Client(stage, 0.0001, rate)
    little.start()
    floods = [Client(stage, 0.00005) for _ in range(300)]
    for flood in floods:
        stage.loop.call_at(0.1, flood.start)
    run(stage)
    assert len(little.waits) > END_S * rate * 0.9
    assert max(little.waits) < 4 * TURN_S
    assert all(flood.waits for flood in floods)


def test_a_client_that_was_held_up_comes_before_those_that_ask_without_end(stage: Stage) -> None:
    """Otherwise requests that arrive while it waits could delay it for ever."""
    little = Client(stage, 0.0001, 100)
    little.start()
    for _ in range(300):
        Client(stage, 0.00005).start()

    def hold_up() -> None:
        stage.loop.elapsed_s += 0.3

    stage.loop.call_at(0.5, hold_up)
    run(stage)
    assert max(little.waits) >= 0.3
    assert max(little.waits[-50:]) < 4 * TURN_S


def test_a_client_that_asks_for_much_at_a_time_comes_behind_those_that_ask_for_little(stage: Stage) -> None:
    """It has no backlog when its work is done, so it makes a new request each time."""
    little = Client(stage, 0.0001, 100)
    little.start()

    def ask_for_much(share: Share) -> None:
        stage.loop.elapsed_s += TURN_S
        if stage.loop.time() < END_S:
            stage.loop.call_soon(lambda: stage.turns.soon(lambda: ask_for_much(share), share))

    for _ in range(100):
        stage.loop.call_at(0.1, ask_for_much, Share())
    run(stage)
    settled = little.waits[len(little.waits) // 2 :]
    assert max(settled) < 6 * TURN_S


def test_those_who_ask_without_end_have_a_part_of_each_turn(stage: Stage) -> None:
    little = [Share() for _ in range(10)]
    much = Share()

    def ask_for_little(share: Share) -> None:
        stage.work("little", LEVELS_S[0])()
        if len(stage.done) < 300:
            stage.loop.call_soon(lambda: stage.turns.soon(lambda: ask_for_little(share), share))

    def ask_for_much() -> None:
        stage.work("much", TURN_S)()
        if len(stage.done) < 300:
            stage.turns.soon(ask_for_much, much)

    stage.turns.soon(ask_for_much, much)
    for share in little:
        stage.turns.soon(lambda share=share: ask_for_little(share), share)  # type: ignore[misc]
    stage.loop.call_soon(stage.count_turns)
    stage.loop.spin()
    turns = [turn for turn, _ in stage.done]
    by_turn = [[name for turn, name in stage.done if turn == each] for each in sorted(set(turns))]
    assert all("much" in names for names in by_turn[1:10]), by_turn
    assert all("little" in names for names in by_turn[1:10]), by_turn


def test_a_client_that_asked_for_much_asks_for_little_again_after_some_times(stage: Stage) -> None:
    once, other = Share(), Share()

    def order() -> list[str]:
        stage.done.clear()
        stage.turns.soon(stage.work("once"), once)
        stage.turns.soon(stage.work("other"), other)
        stage.loop.spin()
        return [name for _, name in stage.done]

    for _ in range(10):
        order()
    stage.turns.soon(stage.work("much", TURN_S), once)
    stage.loop.spin()
    assert order() == ["other", "once"]
    assert [order() for _ in range(10)][-1] == ["once", "other"]


@pytest.mark.parametrize("is_alone", [True, False])
def test_the_pieces_of_a_client_grow_with_how_much_it_asks_for_if_others_wait(stage: Stage, is_alone: bool) -> None:
    parts: list[float] = []
    share, other = Share(), Share()
    step_s, steps = LEVELS_S[0] / 2, 300

    def wait() -> None:
        if sum(parts) < steps * step_s:
            stage.turns.soon(wait, other)

    def work() -> None:
        began = stage.loop.time()
        while sum(parts) + stage.loop.time() - began < steps * step_s:
            stage.loop.elapsed_s += step_s
            if stage.turns.is_over():
                break
        parts.append(round(stage.loop.time() - began, 6))
        if sum(parts) < steps * step_s:
            stage.turns.soon(work, share)

    for _ in range(20):
        stage.turns.soon(lambda: None, share)
        stage.loop.spin()
    stage.turns.soon(work, share)
    if not is_alone:
        wait()
    stage.loop.spin()
    assert sum(parts) == pytest.approx(steps * step_s)
    assert parts == sorted(parts[:-1]) + parts[-1:]
    assert parts[0] == pytest.approx(TURN_S if is_alone else LEVELS_S[0])


def test_work_of_one_share_is_done_in_order(stage: Stage) -> None:
    share = Share()
    for name in "abcdef":
        stage.turns.soon(stage.work(name, TURN_S), share)
    stage.loop.spin()
    assert [name for _, name in stage.done] == list("abcdef")


def test_a_light_turn_costs_no_further_iteration_of_the_loop(stage: Stage) -> None:
    """A callback at the end of each turn would double the iterations of an idle loop."""
    stage.turns.begin(stage.loop.time())
    assert not stage.turns.is_over()
    stage.turns.soon(stage.work("light"), Share())
    calls = stage.loop.scheduled_calls
    stage.loop.spin()
    assert stage.done
    assert stage.loop.scheduled_calls == calls


def test_reads_that_follow_each_other_at_once_share_a_turn(stage: Stage) -> None:
    """The loop has not polled for input between them, however small each of them is."""
    begun = []
    for _ in range(20):
        begun.append(stage.turns.begin(stage.loop.time()))
        stage.loop.elapsed_s += TURN_S / 10
        stage.turns.is_over()
    assert begun == [True] * 10 + [False] * 10


def test_a_pause_ends_a_light_turn(stage: Stage) -> None:
    for _ in range(2 * TURN_ITEMS_MAX):
        assert stage.turns.begin(stage.loop.time())
        stage.turns.is_over()
        stage.loop.elapsed_s += 2 * PAUSE_S


def test_a_pause_does_not_end_a_turn_with_much_work(stage: Stage) -> None:
    """The loop may read a socket many times in one iteration, and get no processor between two reads."""
    assert stage.turns.begin(stage.loop.time())
    stage.loop.elapsed_s += TURN_S
    assert stage.turns.is_over()
    for _ in range(3):
        stage.loop.elapsed_s += 2 * PAUSE_S
        assert not stage.turns.begin(stage.loop.time())
    stage.loop.spin()
    assert stage.turns.begin(stage.loop.time())
