"""A manually driven peer of progress links."""

# ruff: noqa: ANN401 - stands for a connection and a producer

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.position import EARLIEST
from magnetar.geo.progress.codec import decode_marker
from magnetar.geo.progress.link import LinkOptions, ProgressLinks
from magnetar.sim.cluster import Cluster
from magnetar.wire.entries.entry import payload_of

FULL_STATE_INTERVAL_S = 30.0


class HandPeer(ProgressLinks):
    """All the peers of one cluster."""

    peer_is_magnetar = True
    peer_life = ""
    peer_version = "Magnetar"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("ewr", lambda _: None, cluster.clock, LinkOptions(0.05, FULL_STATE_INTERVAL_S))
        self._served = cluster
        self.is_up = True
        self.prompt = True
        """Whether markers are confirmed at once."""
        self.received: list[Any] = []
        """Received markers, in order."""
        self._producers: list[_HandProducer] = []

    async def connection(self, peer: str) -> Any:
        if not self.is_up:
            message = f"{peer} cannot be reached"
            raise MagnetarError(message)
        return self

    async def create_producer(self, topic: str, name: str, metadata: object = None) -> Any:
        del topic, name, metadata
        self._producers.append(_HandProducer(self))
        return self._producers[-1]

    def answer(self) -> None:
        """Confirm all received markers."""
        for producer in self._producers:
            self._served.do(producer.answer)

    def go(self) -> None:
        """Disconnect, and refuse connections."""
        self.is_up = False
        producers, self._producers = self._producers, []
        for producer in producers:
            self._served.do(producer.end)

    def come(self) -> None:
        """Accept connections again; links reconnect within some seconds."""
        self.is_up = True
        for _ in range(10):
            self._served.loop.advance(1)
            self._served.settle()


class _HandProducer:
    def __init__(self, peer: HandPeer) -> None:
        self.failure: Exception | None = None
        self._peer = peer
        self._ended = asyncio.Event()
        self._receipts: list[asyncio.Future[Any]] = []

    def send(self, entry: bytes, *, num_messages: int = 1, marker: bool = False) -> asyncio.Future[Any]:
        del num_messages, marker
        self._peer.received.append(decode_marker(bytes(payload_of(entry))))
        receipt: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._receipts.append(receipt)
        if self._peer.prompt:
            self.answer()
        return receipt

    async def wait_ended(self) -> None:
        await self._ended.wait()

    def answer(self) -> None:
        for receipt in self._receipts:
            receipt.set_result(EARLIEST)
        self._receipts.clear()

    def end(self) -> None:
        self.failure = MagnetarError("the peer is gone")
        for receipt in self._receipts:
            receipt.set_exception(self.failure)
        self._receipts.clear()
        self._ended.set()


def linked_cluster(targets: str = "jfk", **settings: Any) -> tuple[Cluster, HandPeer]:
    """Create a cluster with its peers, which survive a crash."""
    peers: list[HandPeer] = []

    def make(cluster: Cluster) -> ProgressLinks:
        if not peers:
            peers.append(HandPeer(cluster))
        return peers[0]

    return Cluster("ewr", targets=targets.split(), links=make, settings=settings), peers[0]
