"""The credentials of a connection, as it sends them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from magnetar.base.errors import ConfigurationError, RequestError, ServerError
from magnetar.wire import commands

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from magnetar.client.options import ClientOptions


class Identity:
    """The identity of a client on one connection. Credentials may be in files, which threads read."""

    def __init__(self, options: ClientOptions) -> None:
        """Use the credentials of ``options``; nothing is read yet."""
        self._options = options
        self._proof = None if options.credentials.is_anonymous else options.credentials.authentication
        self._data: bytes | None = None

    async def read(self, *, is_encrypted: bool) -> ssl.SSLContext | None:
        """Read the credentials for ``connect``; return the context of an encrypted connection.

        Raises ConfigurationError if a file cannot be read.
        """
        if self._proof is not None:
            self._data = await asyncio.to_thread(self._proof.data)
        return await asyncio.to_thread(self._options.credentials.tls) if is_encrypted else None

    def connect(self) -> bytes:
        """Return CONNECT."""
        return commands.connect(
            client_version=self._options.client_version,
            feature_flags=self._options.feature_flags,
            auth_method_name=None if self._proof is None else self._proof.method,
            auth_data=self._data,
        )

    async def respond(self, write: Callable[[bytes], None], end: Callable[[Exception], None]) -> None:
        """Answer a challenge: the broker asks for credentials in the handshake, or before earlier ones expire.

        ``write`` sends the answer. ``end`` ends the connection if there are no credentials, or they cannot be read.
        """
        if self._proof is None:
            message = "the broker requires authentication, and no credentials are given"
            end(RequestError(ServerError.AuthenticationError, message))
            return
        try:
            data = await asyncio.to_thread(self._proof.data)
        except ConfigurationError as error:
            end(error)
            return
        version, method = self._options.client_version, self._proof.method
        write(commands.auth_response(client_version=version, auth_method_name=method, auth_data=data))
