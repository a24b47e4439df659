"""Clients of other protocols on the port of the binary protocol."""

from __future__ import annotations

import contextlib
import ssl
from socket import create_connection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from magnetar.base.real import SystemFiles
from magnetar.broker.session.handshake.foreign import foreign_protocol
from tests.kit.in_process import BrokerInProcess

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("data", "protocol"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"OPTIONS * HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", "PROXY"),
        (b"\r\n\r\n\x00\r\nQUIT\n", "PROXY"),
        (b"GETTING on", None),
        (b"\x00\x00\x00\x10\x00\x00\x00\x0c", None),
        (b"", None),
    ],
)
def test_a_protocol_is_known_by_its_first_bytes(data: bytes, protocol: str | None) -> None:
    assert foreign_protocol(data) == protocol


def test_the_log_says_which_protocol_a_client_speaks(tmp_path: Path) -> None:
    with BrokerInProcess(tmp_path, SystemFiles()) as broker, capture_logs() as logs:
        where = urlsplit(broker.service_url)
        address = (str(where.hostname), where.port or 0)
        with create_connection(address) as plain, contextlib.suppress(OSError):
            ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        for data in (b"GET /admin/v2/clusters HTTP/1.1\r\nHost: x\r\n\r\n", b"\x7f\x00\x00\x00\x00\x00\x00\x00"):
            with create_connection(address) as plain:
                plain.sendall(data)
                assert plain.recv(1) == b""
    found = [line for line in logs if line["event"] in {"foreign_protocol", "protocol_error"}]
    assert [(line["event"], line.get("protocol")) for line in found] == [
        ("foreign_protocol", "TLS"),
        ("foreign_protocol", "HTTP"),
        ("protocol_error", None),
    ]
    assert "pulsar+ssl://" in found[0]["remedy"]
    assert "webServicePort" in found[1]["remedy"]
