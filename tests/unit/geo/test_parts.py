"""Merging a state of progress in parts has the effect of merging the whole."""

from __future__ import annotations

import random

import pytest

from magnetar.base.position import Position
from magnetar.geo.progress.epochs import Epoch
from magnetar.geo.progress.parts import in_parts, takes_nothing_back
from magnetar.geo.progress.state import SubscriptionProgress

STARTS = {"ewr": Position(1, 4), "jfk": Position(2, 0)}


def a_state(rng: random.Random, epoch: Epoch = Epoch(1, "ewr")) -> SubscriptionProgress:  # noqa: B008 - immutable
    state = SubscriptionProgress("s", STARTS, epoch)
    for cluster in ("ewr", "jfk", "lga"):
        for _ in range(rng.randrange(12)):
            first = rng.randrange(5, 300)
            state.origin(cluster).acknowledge(Position(3, first), Position(3, first + rng.randrange(1, 9)))
        for _ in range(rng.randrange(6)):
            state.origin(cluster).narrow(Position(3, rng.randrange(5, 300)), rng.randrange(1, 16))
    return state


@pytest.mark.parametrize("seed", range(100))
def test_parts_in_any_order_merge_to_what_the_whole_merges_to(seed: int) -> None:
    rng = random.Random(seed)
    incoming, whole = a_state(rng), a_state(rng)
    in_turns = whole.copy()
    parts = list(in_parts(incoming, 3))
    for part in parts:
        assert sum(len(each.acknowledged) + len(each.partial) for each in part.origins.values()) <= 3
        assert takes_nothing_back(in_turns, part)
    rng.shuffle(parts)
    for part in parts:
        in_turns.merge(part)
    whole.merge(incoming)
    assert in_turns == whole


def test_a_small_state_and_a_tombstone_are_their_own_parts() -> None:
    state = a_state(random.Random(1))
    assert list(in_parts(state, 1_000)) == [state]
    tombstone = state.tombstone("jfk")
    assert list(in_parts(tombstone, 1)) == [tombstone]
    empty = SubscriptionProgress("s")
    assert list(in_parts(empty, 1)) == [empty]


def test_merges_that_undo_acknowledgements() -> None:
    state = SubscriptionProgress("s", STARTS, Epoch(2, "ewr"))
    assert takes_nothing_back(state, SubscriptionProgress("s", STARTS, Epoch(2, "ewr")))
    assert not takes_nothing_back(state, SubscriptionProgress("s", STARTS, Epoch(3, "ewr"))), "a newer epoch"
    earlier = {**STARTS, "jfk": Position(1, 9)}
    assert not takes_nothing_back(state, SubscriptionProgress("s", earlier, Epoch(2, "ewr"))), "an earlier start"
    assert not takes_nothing_back(state, SubscriptionProgress("s", {}, Epoch(2, "ewr"))), "the very beginning"
    assert not takes_nothing_back(state, state.tombstone("ewr"))
