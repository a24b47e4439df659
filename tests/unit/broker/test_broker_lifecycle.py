"""A broker closes all resources: after a failed start, after a failed stop, and when stopped twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from magnetar.base.errors import ConfigurationError, StorageError
from magnetar.base.lock import DirectoryLock
from magnetar.broker import ports
from magnetar.broker.service import Broker
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.web.listening import WebSockets
from magnetar.geo.progress.link import ProgressLinks

if TYPE_CHECKING:
    from pathlib import Path

LOOPBACK = "127.0.0.1"


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    return BrokerConfig(dataDirectory=tmp_path, bindAddress=LOOPBACK, brokerServicePort=0, webServicePort=0)


def assert_closed(config: BrokerConfig) -> None:
    """Check that the data directory is not locked, and that a broker can start with it."""
    DirectoryLock(config.dataDirectory).release()

    async def run() -> None:
        broker = Broker(config)
        await broker.start()
        await broker.stop()

    asyncio.run(run())


@pytest.mark.parametrize("setting", ["brokerServicePort", "webServicePort"])
def test_a_port_that_is_taken_is_named_and_what_was_opened_is_closed(config: BrokerConfig, setting: str) -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda _r, _w: None, LOOPBACK, 0)
        port = server.sockets[0].getsockname()[1]
        broker = Broker(config.model_copy(update={setting: port}))
        with pytest.raises(ConfigurationError, match=f"cannot listen on {setting} {port} of {LOOPBACK}: .*in use"):
            await broker.start()
        await broker.stop()
        server.close()

    asyncio.run(run())
    assert_closed(config)


def test_the_ports_that_the_system_chose_are_registered(config: BrokerConfig) -> None:
    async def run() -> None:
        broker = Broker(config)
        await broker.start()
        try:
            registered = broker.environment.resources.clusters.get(config.clusterName)
            assert registered is not None
            for url in (registered.serviceUrl, registered.brokerServiceUrl):
                port = urlsplit(url).port
                assert port
                _, writer = await asyncio.open_connection(LOOPBACK, port)
                writer.close()
        finally:
            await broker.stop()

    asyncio.run(run())


def test_a_port_that_is_taken_after_it_was_bound_is_named(
    config: BrokerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        lost = WebSockets(LOOPBACK, 0)
        lost.close()
        monkeypatch.setattr(ports, "WebSockets", lambda *_: lost)
        with pytest.raises(ConfigurationError, match=f"cannot listen on webServicePort 0 of {LOOPBACK}: "):
            await Broker(config).start()

    asyncio.run(run())
    monkeypatch.undo()
    assert_closed(config)


@pytest.mark.parametrize("host", ["localhost", LOOPBACK])
def test_the_web_server_has_one_port_on_all_addresses_of_its_host(host: str) -> None:
    bound = WebSockets(host, 0)
    assert {each.getsockname()[1] for each in bound.sockets} == {bound.port}
    assert bound.port
    bound.close()


def test_a_failed_stop_closes_the_rest_and_says_so(config: BrokerConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: ProgressLinks) -> None:
        message = "a bug"
        raise StorageError(message)

    async def run() -> None:
        broker = Broker(config)
        with monkeypatch.context() as patched:
            patched.setattr(ProgressLinks, "close", fail)
            await broker.start()
            with pytest.raises(StorageError, match="a bug"):
                await broker.stop()
        assert broker.environment.store.state.failure == "the store is closed"

    asyncio.run(run())
    assert_closed(config)


def test_a_second_stop_changes_nothing(config: BrokerConfig) -> None:
    async def run() -> None:
        broker = Broker(config)
        await broker.start()
        await asyncio.gather(broker.stop(), broker.stop())
        await broker.stop()

    asyncio.run(run())
    assert_closed(config)


def test_a_stop_waits_for_the_start_that_is_under_way(config: BrokerConfig) -> None:
    async def run() -> None:
        broker = Broker(config)
        await asyncio.gather(broker.start(), broker.stop())

    asyncio.run(run())
    assert_closed(config)
