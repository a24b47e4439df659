"""Requests for documents of issuers, over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from socket import create_server
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure, ConfigurationError
from magnetar.security.providers import fetching
from magnetar.security.providers.fetching import HttpFetch, trusting

if TYPE_CHECKING:
    from pathlib import Path

TLS = ssl.create_default_context()


def served(answer: bytes | None, read_s: float = 5.0) -> bytes:
    """Return the document that a server sends as ``answer``; None: it sends nothing."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(10_000)
            if answer is None:
                connection.recv(1)
            else:
                connection.sendall(answer)

    with create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=serve)
        thread.start()
        try:
            return asyncio.run(HttpFetch(TLS, 5.0, read_s)(f"http://127.0.0.1:{listener.getsockname()[1]}/x"))
        finally:
            thread.join()


def test_a_document_is_returned() -> None:
    assert served(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") == b"{}"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the status is not 200"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "the status is not 200"),
        (b"garbage\r\n\r\n", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n" + b"x" * 50, "more than"),
        (None, "Timeout"),
    ],
)
def test_another_answer_is_a_failure_of_the_issuer(
    answer: bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "DOCUMENT_BYTES_MAX", 10)
    with pytest.raises(AuthenticationFailedError, match=reason) as raised:
        served(answer, read_s=0.1 if answer is None else 5.0)
    assert raised.value.kind is AuthenticationFailure.ISSUER


def test_an_address_without_a_server_is_a_failure_of_the_issuer() -> None:
    with pytest.raises(AuthenticationFailedError, match="ConnectError"):
        asyncio.run(HttpFetch(TLS, 5.0, 5.0)("http://127.0.0.1:1/"))


def test_a_file_of_certificates_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    with pytest.raises(ConfigurationError, match="openIDTokenIssuerTrustCertsFilePath: cannot read certificates"):
        trusting(str(path))
    assert isinstance(trusting(""), ssl.SSLContext)
