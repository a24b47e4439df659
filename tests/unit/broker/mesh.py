"""Clusters that replicate to each other over manually driven links."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.sim.pipe import Pipe
from magnetar.sim.virtual.loop import HandLoop
from magnetar.wire.entries.entry import payload_of

if TYPE_CHECKING:
    from magnetar.base.position import Position

MARKERS: dict[str, Any] = {"replicatedSubscriptionSync": "markers"}
SECOND = 1.01
"""Slightly more than the interval of snapshots."""


class Mesh:
    """Clusters by name, with a client each, and a pipe for each ordered pair."""

    def __init__(self, *names: str, settings: dict[str, Any] | None = None, permits: int = 1000) -> None:
        """Attach all links, each with ``permits`` permits."""
        self.loop = HandLoop()
        self.settings = MARKERS if settings is None else settings
        self.clusters = {
            name: Cluster(
                name, targets=[each for each in names if each != name], settings=self.settings, loop=self.loop
            )
            for name in names
        }
        self.pipes: dict[tuple[str, str], Pipe] = {}
        for source, target in permutations(names, 2):
            pipe = self.pipes[source, target] = Pipe(self.clusters[source], self.clusters[target])
            pipe.attach(permits=permits)
        self.clients: dict[str, Client] = {name: cluster.client() for name, cluster in self.clusters.items()}

    def publish(self, name: str, *texts: str) -> None:
        """Publish in a cluster."""
        client = self.clusters[name].client()
        client.produce()
        client.send(*texts)
        client.leave()

    def subscribe(self, name: str, *, replicate: bool = True, permits: int = 1000) -> Client:
        """Create a consumer of the subscription "worker"; its ``messages()`` are the new ones."""
        client = self.clusters[name].client()
        client.subscribe(replicate_subscription_state=replicate, permits=permits)
        return client

    def carry(self, rounds: int = 3) -> None:
        """Carry all entries, and their consequences, over all attached links."""
        for _ in range(rounds):
            for cluster in self.clusters.values():
                cluster.settle()
            for pipe in self.pipes.values():
                pipe.read()
                pipe.run()

    def second(self, rounds: int = 3) -> None:
        """Advance a second, and carry all entries."""
        self.loop.advance(SECOND)
        self.carry(rounds)

    def mark(self, name: str, subscription: str = "worker") -> Position:
        """Return the subscription's mark-delete position."""
        return self.clusters[name].subscription(subscription).cursor.state.mark_delete_position

    def backlog(self, name: str, subscription: str = "worker") -> int:
        """Return the number of unacknowledged entries of the subscription."""
        return self.clusters[name].subscription(subscription).backlog

    def end(self, name: str) -> Position:
        """Return the newest entry of a cluster's log."""
        return self.clusters[name].topic(TOPIC).ledger.last_confirmed_entry

    def entries(self, name: str) -> int:
        """Return the number of entries in a cluster's log."""
        return self.clusters[name].topic(TOPIC).ledger.entries

    def texts(self, name: str) -> dict[Position, str]:
        """Return the contents of a cluster's log."""
        ledger = self.clusters[name].topic(TOPIC).ledger
        found = ledger.read_cached(ledger.first_position, ledger.entries, 1 << 30) if ledger.entries else []
        assert found is not None
        return {position: bytes(payload_of(entry)).decode().rstrip("\0") for position, entry in found}

    def acknowledged(self, name: str, subscription: str = "worker") -> set[str]:
        """Return the texts that the subscription has acknowledged; empty if it does not exist."""
        found = self.clusters[name].topic(TOPIC).subscriptions.get(subscription)
        if found is None:
            return set()
        return {text for position, text in self.texts(name).items() if found.unread.is_finished(position)}

    def problems(self) -> list[dict[str, Any]]:
        """Return the exceptions of callbacks."""
        return self.loop.problems
