"""The schedule of PIP-33's snapshots."""

from __future__ import annotations

from itertools import count

import pytest

from magnetar.base.position import Position
from magnetar.geo.snapshots.controller import UNDER_WAY_MAX, Ask, Completed, Effect, SnapshotController, SnapshotOptions
from magnetar.geo.snapshots.markers import SnapshotResponse

THERE: dict[str, float | None] = {"jfk": None, "lga": None}
END = Position(3, 7)


def new_controller() -> SnapshotController:
    numbers = count()
    return SnapshotController(SnapshotOptions(timeout_s=30.0), lambda: f"s{next(numbers)}")


def ask(snapshot_id: str) -> list[Effect]:
    return [Ask(snapshot_id, ("jfk", "lga"))]


def answer(controller: SnapshotController, snapshot_id: str, cluster: str) -> list[Effect]:
    return controller.answered(SnapshotResponse(snapshot_id, cluster, Position(9, 1), frozenset()), 5.0, END)


def test_a_first_snapshot_whose_request_may_be_lost_keeps_no_other_back_and_counts_if_it_is_answered() -> None:
    controller = new_controller()
    assert controller.tick(1.0, 0.0, THERE) == ask("s0")
    assert controller.tick(2.0, 0.0, THERE) == []
    controller.handed_over("jfk")
    assert controller.tick(3.0, 0.0, THERE) == ask("s1")
    assert controller.tick(4.0, 0.0, THERE) == []
    for cluster in ("jfk", "lga", "jfk"):
        answer(controller, "s0", cluster)
    (completed,) = answer(controller, "s0", "lga")
    assert isinstance(completed, Completed)
    assert (controller.pending, controller.counts.timed_out) == (1, 0)


def test_the_request_of_the_second_round_may_be_lost_as_well() -> None:
    controller = new_controller()
    controller.tick(1.0, 0.0, THERE)
    answer(controller, "s0", "jfk")
    controller.handed_over("jfk")
    assert controller.tick(2.0, 0.0, THERE) == [], "it has answered"
    assert answer(controller, "s0", "lga") == ask("s0")
    controller.handed_over("jfk")
    assert controller.tick(3.0, 0.0, THERE) == ask("s1")


def test_one_more_snapshot_follows_the_first_that_nothing_came_after_and_then_none() -> None:
    controller = new_controller()
    for number, now in enumerate((1.0, 2.0)):
        snapshot_id = f"s{number}"
        assert controller.tick(now, 0.5, THERE) == ask(snapshot_id)
        for cluster in ("jfk", "lga", "jfk", "lga"):
            answer(controller, snapshot_id, cluster)
    assert controller.counts.completed == 2
    assert controller.tick(3.0, 0.5, THERE) == []
    assert controller.is_idle(0.5)
    assert controller.tick(4.0, 3.5, THERE) == ask("s2")


def test_no_more_snapshots_are_begun_than_answers_come_for() -> None:
    """With slow answers, more requests would queue before them until all expire."""
    controller = new_controller()
    controller.tick(1.0, 0.0, THERE)
    for cluster in ("jfk", "lga", "jfk", "lga"):
        answer(controller, "s0", cluster)
    begun = [controller.tick(2.0 + number, 1.5, THERE) for number in range(UNDER_WAY_MAX + 2)]
    assert begun == [*(ask(f"s{number + 1}") for number in range(UNDER_WAY_MAX)), [], []]
    for cluster in ("jfk", "lga", "jfk", "lga"):
        answer(controller, "s1", cluster)
    assert controller.tick(10.0, 9.5, THERE) == ask(f"s{UNDER_WAY_MAX + 1}")
    assert controller.tick(11.0, 9.5, THERE) == []
    controller.handed_over("jfk")
    assert controller.tick(12.0, 9.5, THERE) == ask(f"s{UNDER_WAY_MAX + 2}"), "the others may never be answered"


def test_a_snapshot_is_due_when_a_cluster_that_was_left_out_is_back() -> None:
    """Without messages, nothing else would report the acknowledgements to it."""
    numbers = count(1)
    controller = SnapshotController(SnapshotOptions(timeout_s=30.0, without_after_s=5.0), lambda: f"s{next(numbers)}")
    away: dict[str, float | None] = {"jfk": None, "lga": 6.0}
    for number, now in ((1, 10.0), (2, 11.0)):
        assert controller.tick(now, 9.0, away, leaves_out=True) == [Ask(f"s{number}", ("jfk",), ("lga",))]
        answer = SnapshotResponse(f"s{number}", "jfk", Position(1, 1), frozenset({"lga"}))
        assert isinstance(controller.answered(answer, now, Position(2, 2))[0], Completed)
    assert controller.is_idle(9.0)
    controller.handed_over("lga")
    assert not controller.is_idle(9.0)
    assert controller.tick(20.0, 9.0, {"jfk": None, "lga": None}, leaves_out=True) == [Ask("s3", ("jfk", "lga"))]


@pytest.mark.parametrize("is_pending", [False, True])
def test_a_snapshot_is_due_when_a_cluster_lost_entries(is_pending: bool) -> None:
    """They are sent again to positions that no snapshot has."""
    controller = new_controller()
    for number, now in enumerate((1.0, 2.0)):
        assert controller.tick(now, 0.5, THERE) == ask(f"s{number}")
        if is_pending and number == 1:
            controller.went_back()
        for cluster in ("jfk", "lga", "jfk", "lga"):
            answer(controller, f"s{number}", cluster)
    if not is_pending:
        controller.went_back()
    assert not controller.is_idle(0.5)
    assert controller.tick(3.0, 0.5, THERE) == ask("s2")
    for cluster in ("jfk", "lga", "jfk", "lga"):
        answer(controller, "s2", cluster)
    assert controller.is_idle(0.5)


def test_a_cluster_that_comes_back_during_a_snapshot_without_it_is_in_the_next_one() -> None:
    numbers = count(1)
    controller = SnapshotController(SnapshotOptions(timeout_s=30.0, without_after_s=5.0), lambda: f"s{next(numbers)}")
    for number, now in ((1, 10.0), (2, 11.0)):
        controller.tick(now, 9.0, {"jfk": None, "lga": 6.0}, leaves_out=True)
        if number == 2:
            controller.handed_over("lga")
        controller.answered(
            SnapshotResponse(f"s{number}", "jfk", Position(1, 1), frozenset({"lga"})), now, Position(2, 2)
        )
    assert not controller.is_idle(9.0)
