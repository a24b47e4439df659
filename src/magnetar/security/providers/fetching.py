"""Requests for the documents of issuers, with limits of size and time."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final

import httpx

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure, ConfigurationError

DOCUMENT_BYTES_MAX: Final = 1024 * 1024
"""Maximum bytes of a document."""

_NOT_OK: Final = "the status is not 200"

_TOO_LARGE: Final = f"the document has more than {DOCUMENT_BYTES_MAX} bytes"


@dataclass(frozen=True, slots=True)
class HttpFetch:
    """Requests with GET. Redirects are not followed, and proxies of the environment are not used."""

    tls: ssl.SSLContext
    connect_timeout_s: float
    read_timeout_s: float
    """Also a limit, together with the other one, for the whole request."""

    async def __call__(self, url: str) -> bytes:
        """See Fetch."""
        timeout = httpx.Timeout(self.read_timeout_s, connect=self.connect_timeout_s)
        content = bytearray()
        try:
            async with (
                asyncio.timeout(self.connect_timeout_s + self.read_timeout_s),
                httpx.AsyncClient(verify=self.tls, timeout=timeout, trust_env=False) as client,
                client.stream("GET", url, headers={"Accept": "application/json"}) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise _failure(_NOT_OK)
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > DOCUMENT_BYTES_MAX:
                        raise _failure(_TOO_LARGE)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise _failure(type(error).__name__) from None
        return bytes(content)


def trusting(path: str) -> ssl.SSLContext:
    """Return the TLS context for issuers that trusts the certificates in a file, or those of the system if it is empty.

    Raises ConfigurationError.
    """
    try:
        return ssl.create_default_context(cafile=path or None)
    except OSError as error:
        message = (
            f"openIDTokenIssuerTrustCertsFilePath: cannot read certificates from {path}: {error.strerror or error}"
        )
        raise ConfigurationError(message) from error


def _failure(how: str) -> AuthenticationFailedError:
    return AuthenticationFailedError(f"the issuer of the token does not answer: {how}", AuthenticationFailure.ISSUER)
