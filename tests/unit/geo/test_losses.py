"""The losses of a cluster, and those who watch them."""

from __future__ import annotations

from magnetar.geo.losses import Losses
from magnetar.sim.cluster import TOPIC


def test_watches_learn_of_a_loss_in_the_order_of_their_begin() -> None:
    losses, told = Losses("run"), list[int]()
    watches = [losses.watch(lambda number=number: told.append(number)) for number in range(100)]  # type: ignore[misc]
    losses.end(watches[50])
    losses.note(TOPIC)
    assert told == [number for number in range(100) if number != 50]
