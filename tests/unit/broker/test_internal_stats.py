"""What ``internalStats`` says of a topic's log."""

from __future__ import annotations

from magnetar.broker.stats import internal_stats
from magnetar.sim.cluster import Cluster


def test_an_entry_counts_once_it_is_durable() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b")
    cluster.prompt = False
    client.send("c", first=2)

    def counts() -> tuple[int, int, list[int]]:
        stats = internal_stats(cluster.topic())
        return stats.number_of_entries, stats.current_ledger_entries, [each.entries for each in stats.ledgers]

    assert counts() == (2, 2, [2])
    cluster.commit()
    assert counts() == (3, 3, [3])
