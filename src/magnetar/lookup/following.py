"""Follows the routes of one broker by its admin API: each request is answered when they change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import structlog

from magnetar.base.errors import ConfigurationError
from magnetar.metadata.routes.atlas import Atlas

if TYPE_CHECKING:
    from collections.abc import Callable

    from magnetar.security.credentials import Credentials

log = structlog.get_logger(__name__)

WAIT_S = 20.0
"""Seconds after which a broker answers without a change."""

TIMEOUT_S = 5.0
"""Seconds for a connection, and for an answer beyond WAIT_S."""

RETRY_S = 0.5
"""Seconds between two attempts to reach a broker."""


class Following:
    """One broker. Used on the event loop's thread."""

    def __init__(self, url: str, credentials: Credentials, learn: Callable[[Atlas], None]) -> None:
        """Follow the broker with the admin URL ``url``; ``learn`` gets each of its statements."""
        self.url = url.rstrip("/")
        self._credentials = credentials
        self._learn = learn
        self._version = ""
        self.failure: str | None = "not asked yet"
        """Why the broker is not followed; None while it is."""

    def is_followed(self) -> bool:
        """Return whether the broker is followed."""
        return self.failure is None

    async def run(self) -> None:
        """Follow until cancelled."""
        tls = await asyncio.to_thread(self._credentials.tls)
        timeout = httpx.Timeout(TIMEOUT_S, read=WAIT_S + TIMEOUT_S)
        async with httpx.AsyncClient(timeout=timeout, trust_env=False, verify=tls) as web:
            while True:
                try:
                    found = await self._ask(web)
                except (httpx.HTTPError, httpx.InvalidURL, ValueError, ConfigurationError) as error:
                    self._failed(f"{type(error).__name__}: {error}" if not str(error) else str(error))
                    await asyncio.sleep(RETRY_S)
                    continue
                if self.failure is not None:
                    log.info("routes_followed", broker=self.url, cluster=found.cluster)
                    self.failure = None
                if found.version != self._version:
                    self._learn(found)
                    self._version = found.version

    async def _ask(self, web: httpx.AsyncClient) -> Atlas:
        # Without an answer yet, nothing is waited for: a broker that has returned answers at once.
        wait_ms = 0 if self.failure is not None else int(WAIT_S * 1000)
        authorization = await asyncio.to_thread(self._credentials.authentication.authorization)
        response = await web.get(
            f"{self.url}/admin/v2/magnetar/atlas",
            params={"version": self._version, "waitMs": wait_ms},
            headers={} if authorization is None else {"Authorization": authorization},
        )
        response.raise_for_status()
        return Atlas.model_validate_json(response.content)

    def _failed(self, reason: str) -> None:
        if self.failure is None or self.failure == "not asked yet":
            log.warning("routes_not_followed", broker=self.url, reason=reason)
        self.failure = reason
