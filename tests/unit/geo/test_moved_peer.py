"""A peer whose broker URL changes is connected at the new one, also by links that are up."""

from __future__ import annotations

import asyncio
from typing import Self

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.base.real import SystemClock
from magnetar.client.options import ClientOptions, PeerAddress
from magnetar.geo.progress import link
from magnetar.geo.progress.link import LinkOptions, ProgressLinks
from magnetar.security.credentials import Credentials


class Connection:
    """A connection that is open until ``close``."""

    failure: Exception | None = None

    def __init__(self, url: str, options: ClientOptions) -> None:
        self.url = url
        self.options = options

    @classmethod
    async def open(cls, url: str, options: ClientOptions) -> Self:
        return cls(url, options)

    def close(self) -> None:
        self.failure = ConnectionError("closed")


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PulsarConnection", Connection)


def links_to(urls: dict[str, str]) -> ProgressLinks:
    def address_of(peer: str) -> PeerAddress | None:
        return PeerAddress(urls[peer]) if peer in urls else None

    return ProgressLinks("ewr", address_of, SystemClock(), LinkOptions(0.05, 60.0))


def test_a_connection_to_the_old_address_is_closed_and_the_next_one_is_to_the_new() -> None:
    urls = {"jfk": "pulsar://jfk:1", "lga": "pulsar://lga:1"}

    async def scenario() -> None:
        links = links_to(urls)
        jfk, lga = await links.connection("jfk"), await links.connection("lga")
        urls["jfk"] = "pulsar://jfk:2"
        for peer in ("jfk", "lga", "sfo"):
            links.address_changed(peer)
        assert isinstance(jfk.failure, ConnectionError)
        assert lga.failure is None
        assert (await links.connection("jfk")).url == "pulsar://jfk:2"
        assert await links.connection("lga") is lga

    asyncio.run(scenario())


def test_another_change_of_the_record_leaves_the_connection_alone() -> None:
    async def scenario() -> None:
        links = links_to({"jfk": "pulsar://jfk:1"})
        jfk = await links.connection("jfk")
        links.address_changed("jfk")
        assert await links.connection("jfk") is jfk
        assert jfk.failure is None

    asyncio.run(scenario())


def test_a_connection_that_was_being_opened_to_the_old_address_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = {"jfk": "pulsar://jfk:1"}

    class Slow(Connection):
        @classmethod
        async def open(cls, url: str, options: ClientOptions) -> Self:
            urls["jfk"] = "pulsar://jfk:2"
            return cls(url, options)

    monkeypatch.setattr(link, "PulsarConnection", Slow)

    async def scenario() -> None:
        links = links_to(urls)
        with pytest.raises(MagnetarError, match="jfk has moved"):
            await links.connection("jfk")
        assert (await links.connection("jfk")).url == "pulsar://jfk:2"

    asyncio.run(scenario())


def test_a_connection_presents_the_credentials_of_the_broker() -> None:
    options = ClientOptions(credentials=Credentials(auth_plugin="token", auth_params="token:own"))

    async def scenario() -> None:
        address = PeerAddress("pulsar://jfk:1", options)
        links = ProgressLinks("ewr", lambda _: address, SystemClock(), LinkOptions(0.05, 60.0))
        connection = await links.connection("jfk")
        assert isinstance(connection, Connection)
        assert connection.options is options

    asyncio.run(scenario())
