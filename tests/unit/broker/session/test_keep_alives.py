"""Thousands of connections may be due for a keep-alive at the same time: it is sent in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.broker.loop.slices import SLICE_ITEMS_MAX
from magnetar.broker.session.server import Server, ServerProtocol
from magnetar.sim.cluster import Cluster
from tests.unit.broker.session.test_closed_connections import Socket

if TYPE_CHECKING:
    import pytest

CONNECTIONS = 2 * SLICE_ITEMS_MAX + 1


def test_keep_alives_are_sent_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    ticked: list[ServerProtocol] = []
    monkeypatch.setattr(ServerProtocol, "tick", lambda protocol, _now: ticked.append(protocol))
    cluster = Cluster()
    server = Server(cluster.environment, cluster.domains)
    protocols = [ServerProtocol(server) for _ in range(CONNECTIONS)]
    for protocol in protocols:
        protocol.connection_made(Socket())  # type: ignore[arg-type]

    def tick() -> None:
        server._tick()
        assert ticked == protocols[:SLICE_ITEMS_MAX]
        server.forget(protocols[-1])

    cluster.do(tick)
    assert ticked == protocols[:-1]
