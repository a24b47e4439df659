"""Sockets of a process that are no connections to its ports."""

from __future__ import annotations

import os
import socket

from tests.kit.child import LOOPBACK
from tests.kit.processes import other_sockets


def test_accepted_and_waiting_connections_are_no_other_sockets() -> None:
    pid = os.getpid()
    with socket.create_server((LOOPBACK, 0)) as server, socket.socket() as client:
        port = server.getsockname()[1]
        before = other_sockets(pid, (port,))
        client.connect((LOOPBACK, port))
        assert other_sockets(pid, (port,)) == before, "the connection waits"
        with server.accept()[0]:
            assert other_sockets(pid, (port,)) == before, "the connection is accepted"
            assert other_sockets(pid, ()) == before + 1
