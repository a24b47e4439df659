"""A closed progress link ends, whatever happened in the same turn of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from magnetar.base.real import SystemClock
from magnetar.geo.progress.link import LinkOptions, ProgressLink, ProgressLinks
from magnetar.geo.progress.state import SubscriptionProgress

if TYPE_CHECKING:
    from magnetar.client.connection import PulsarConnection


class Peer:
    """A connection with its producer that accepts everything."""

    peer_is_magnetar = True
    peer_life = ""
    peer_version = "Magnetar"
    failure = None

    def __init__(self) -> None:
        self.sent = 0
        self.dropped = 0

    async def create_producer(self, topic: str, name: str, metadata: object = None) -> Peer:
        return self

    async def send(self, entry: bytes, *, marker: bool) -> None:
        self.sent += 1

    async def wait_ended(self) -> None:
        await asyncio.Event().wait()

    def drop(self) -> None:
        self.dropped += 1


class LinksTo(ProgressLinks):
    def __init__(self, peer: Peer) -> None:
        super().__init__("ewr", lambda _: None, SystemClock(), LinkOptions(0.0, 60.0))
        self.peer = peer

    async def connection(self, peer: str) -> PulsarConnection:
        return cast("PulsarConnection", self.peer)


async def turns(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        turned = asyncio.Event()
        loop.call_soon(turned.set)
        await turned.wait()


async def closed_when_news_is(turns_after_news: int) -> tuple[bool, int, int]:
    """Close a link ``turns_after_news`` turns after news; return whether it ended, and the messages before and then."""
    peer = Peer()

    async def full_states() -> list[SubscriptionProgress]:
        return [SubscriptionProgress("worker")]

    link = ProgressLink(LinksTo(peer), "jfk", "orders", full_states, lambda: None, dict)
    await turns(20)
    assert peer.sent == 1  # the full state
    link.add(SubscriptionProgress("worker"), None)
    await turns(turns_after_news)
    link.close("the test is over")
    await turns(20)
    assert peer.dropped == 1
    before = peer.sent
    link.add(SubscriptionProgress("worker"), None)
    await turns(20)
    return link._task.done(), before, peer.sent


def test_a_link_that_is_closed_as_news_comes_ends_and_sends_nothing_more() -> None:
    for turns_after_news in range(6):
        ended, before, after = asyncio.run(closed_when_news_is(turns_after_news))
        assert ended, turns_after_news
        assert after == before, turns_after_news
