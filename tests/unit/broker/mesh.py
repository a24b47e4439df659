"""Some clusters that replicate to each other, every link carried by hand."""

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
"""A little more than the time between two snapshots."""


class Mesh:
    """Clusters by name; each has a client, and there is a pipe for each two of them."""

    def __init__(self, *names: str, settings: dict[str, Any] | None = None, permits: int = 1000) -> None:
        """Begin with all links attached; each asks for so many entries ahead."""
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
        """A consumer of the subscription "worker" that has its messages; the client's ``messages()`` are new ones."""
        client = self.clusters[name].client()
        client.subscribe(replicate_subscription_state=replicate, permits=permits)
        return client

    def carry(self, rounds: int = 3) -> None:
        """Carry everything there is, and what follows from it, over all links that are attached."""
        for _ in range(rounds):
            for cluster in self.clusters.values():
                cluster.settle()
            for pipe in self.pipes.values():
                pipe.read()
                pipe.run()

    def second(self, rounds: int = 3) -> None:
        """Let a second pass, and carry what comes of it."""
        self.loop.advance(SECOND)
        self.carry(rounds)

    def mark(self, name: str, subscription: str = "worker") -> Position:
        """Where the subscription's mark-delete position is."""
        return self.clusters[name].subscription(subscription).cursor.state.mark_delete_position

    def backlog(self, name: str, subscription: str = "worker") -> int:
        """Entries that the subscription has not acknowledged."""
        return self.clusters[name].subscription(subscription).backlog

    def end(self, name: str) -> Position:
        """The newest entry of a cluster's log."""
        return self.clusters[name].topic(TOPIC).ledger.last_confirmed_entry

    def entries(self, name: str) -> int:
        """How many entries a cluster's log holds."""
        return self.clusters[name].topic(TOPIC).ledger.entries

    def texts(self, name: str) -> dict[Position, str]:
        """What a cluster's log holds."""
        ledger = self.clusters[name].topic(TOPIC).ledger
        found = ledger.read_cached(ledger.first_position, ledger.entries, 1 << 30) if ledger.entries else []
        assert found is not None
        return {position: bytes(payload_of(entry)).decode().rstrip("\0") for position, entry in found}

    def acknowledged(self, name: str, subscription: str = "worker") -> set[str]:
        """Which of that the subscription has acknowledged; nothing while it does not exist."""
        found = self.clusters[name].topic(TOPIC).subscriptions.get(subscription)
        if found is None:
            return set()
        return {text for position, text in self.texts(name).items() if found.unread.is_finished(position)}

    def problems(self) -> list[dict[str, Any]]:
        """What callbacks raised."""
        return self.loop.problems
