"""A number of entries is skipped, and no more."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from magnetar.broker.subscription import unread
from magnetar.sim.cluster import Cluster, entry

if TYPE_CHECKING:
    from collections.abc import Generator

    import pytest

    from magnetar.base.position import Position


def test_entries_that_arrive_while_entries_are_counted_are_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "STEP_ENTRIES", 1)
    cluster = Cluster()
    publisher, client = cluster.client(), cluster.client()
    publisher.produce()
    client.subscribe(permits=0)
    publisher.send("a", "b")
    topic, subscription = cluster.topic(), cluster.subscription()
    nth = subscription.unread.nth

    def counting(count: int, *, with_damaged: bool) -> Generator[None, None, Position | None]:
        steps = nth(count, with_damaged=with_damaged)
        next(steps)
        yield
        topic.log.append([entry(text) for text in "cde"], lambda *_: None)
        cluster.store.commit()
        return (yield from steps)

    monkeypatch.setattr(subscription.unread, "nth", counting)
    cluster.do(partial(cluster.loop.create_task, subscription.skip(3)))
    assert subscription.backlog == 3
