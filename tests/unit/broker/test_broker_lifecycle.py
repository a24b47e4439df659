"""A broker closes all resources: after a failed start, after a failed stop, and when stopped twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError, StorageError
from magnetar.base.lock import DirectoryLock
from magnetar.broker.service import Broker
from magnetar.broker.settings.config import BrokerConfig
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
