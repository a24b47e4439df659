"""A broker in this process, on a loop in a separate thread, so that a test can replace its file system."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Self

from magnetar.broker.service import Broker
from magnetar.broker.settings.config import BrokerConfig
from tests.kit.child import LOOPBACK, free_ports
from tests.kit.rest import Rest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from magnetar.base.world import Files
    from magnetar.security.credentials import Credentials


class BrokerInProcess:
    """A context manager that serves ``directory``; the log uses ``files``."""

    credentials: Credentials | None = None
    """Credentials for the admin API; if a subclass has them, all ports have TLS."""

    def __init__(self, directory: Path, files: Files, **settings: object) -> None:
        """Choose ports; ``settings`` are additional configuration keys."""
        credentials = self.credentials
        binary_port, web_port = free_ports(2)
        tls, secure = ("", "") if credentials is None else ("Tls", "s")
        self.service_url = f"pulsar{'+ssl' if tls else ''}://{LOOPBACK}:{binary_port}"
        self.admin_url = f"http{secure}://{LOOPBACK}:{web_port}"
        self.rest = Rest(self.admin_url, context=credentials.tls() if credentials else None)
        self._files = files
        self._config = BrokerConfig.model_validate(
            {
                "brokerServicePort": None,
                "webServicePort": None,
                f"brokerServicePort{tls}": binary_port,
                f"webServicePort{tls}": web_port,
                "bindAddress": LOOPBACK,
                "advertisedAddress": LOOPBACK,
                "dataDirectory": directory,
                **settings,
            }
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)

    def __enter__(self) -> Self:
        """Start the broker, and create ``public/default``."""
        self._thread.start()
        self.broker = Broker(self._config, self._files)
        asyncio.run_coroutine_threadsafe(self.broker.start(), self._loop).result(60)
        cluster = self._config.clusterName
        self.rest.ensure(f"clusters/{cluster}", self.broker.topics.addresses.internal.to_json())
        self.rest.ensure("tenants/public", {"adminRoles": [], "allowedClusters": [cluster]})
        self.rest.ensure("namespaces/public/default", {})
        return self

    def __exit__(self, *_exception: object) -> None:
        """Stop the broker."""
        asyncio.run_coroutine_threadsafe(self.broker.stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.rest.close()

    def call(self, work: Callable[[], None]) -> None:
        """Call ``work`` on the broker's loop, and wait for it."""

        async def do() -> None:
            work()

        asyncio.run_coroutine_threadsafe(do(), self._loop).result(60)
