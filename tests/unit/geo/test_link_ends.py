"""A progress link never ends without a log line, and never ends while it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from magnetar.base.errors import RequestError, ServerError
from magnetar.geo.progress.link import RETRY_DELAY_MAX_S, LinkOptions, ProgressLink, ProgressLinks
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.sim.virtual.loop import HandClock, HandLoop

if TYPE_CHECKING:
    from magnetar.client.connection import PulsarConnection

RETRY_S = RETRY_DELAY_MAX_S + 0.1


class Peer:
    """A connection with its producer that accepts everything."""

    peer_is_magnetar = True
    peer_life = ""
    peer_version = "Magnetar"
    failure: Exception | None = None

    async def create_producer(self, topic: str, name: str, metadata: object = None) -> Peer:
        return self

    async def send(self, entry: bytes, *, marker: bool) -> None:
        """Accept the marker."""

    async def wait_ended(self) -> None:
        """Return at once; ``failure`` tells whether the producer ended."""

    def drop(self) -> None:
        """Close the producer."""


class Links(ProgressLinks):
    """A peer that is reachable when ``error`` is None."""

    def __init__(self, loop: HandLoop) -> None:
        super().__init__("ewr", lambda _: None, HandClock(loop), LinkOptions(0.05, 60.0))
        self.error: Exception | None = None

    async def connection(self, peer: str) -> PulsarConnection:
        if self.error is not None:
            raise self.error
        return cast("PulsarConnection", Peer())


async def full_states() -> list[SubscriptionProgress]:
    return [SubscriptionProgress("worker")]


def opened(loop: HandLoop, links: Links) -> ProgressLink:
    made: list[ProgressLink] = []
    loop.call_soon(lambda: made.append(ProgressLink(links, "jfk", "orders", full_states, lambda: None, dict)))
    loop.spin()
    return made[0]


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("refused"),
        RequestError(ServerError.PersistenceError, "Topic orders cannot be loaded"),
        ValueError("a bug"),
        UnicodeError("label too long"),
        AssertionError(),
    ],
    ids=repr,
)
def test_whatever_ends_a_link_is_logged_once_and_the_link_is_opened_again(error: Exception) -> None:
    loop = HandLoop()
    links = Links(loop)
    links.error = error
    with capture_logs() as logs:
        link = opened(loop, links)
        for _ in range(5):
            loop.advance(RETRY_S)
        assert link.failure
        assert link.down_since is not None
        links.error = None
        loop.advance(RETRY_S)
    assert [(each["event"], each.get("error")) for each in logs] == [
        ("progress_link_lost", str(error) if isinstance(error, ConnectionError | RequestError) else repr(error)),
        ("progress_link_up", None),
    ]
    assert link.down_since is None
    assert not link.failure
    assert not loop.problems


def test_another_reason_is_logged_as_well() -> None:
    loop = HandLoop()
    links = Links(loop)
    with capture_logs() as logs:
        for links.error in (ConnectionError("refused"), ConnectionError("reset")):
            opened(loop, links) if not logs else loop.advance(RETRY_S)
    assert [each["error"] for each in logs] == ["refused", "reset"]


def test_a_link_that_is_closed_says_why() -> None:
    loop = HandLoop()
    links = Links(loop)
    link = opened(loop, links)
    with capture_logs() as logs:
        link.close("the topic is closed")
        loop.spin()
    assert [(each["event"], each["peer"], each["reason"]) for each in logs] == [
        ("progress_link_closed", "jfk", "the topic is closed")
    ]
