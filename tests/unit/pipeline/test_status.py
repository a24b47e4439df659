"""Statuses from tasks to the driver, over real sockets of this machine."""

from __future__ import annotations

import socket

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.pipeline.status import StatusReceiver, StatusSender, TaskStatus
from tests.kit.wait import wait_until

STATUS = TaskStatus("jfk", 7, carrying=True, links=3)


def test_a_status_arrives_at_the_port_under_the_name_of_the_host() -> None:
    receiver = StatusReceiver("127.0.0.1")
    sender = StatusSender(("localhost", receiver.port))
    sender.send(STATUS)
    assert wait_until(receiver.receive) == [STATUS]
    assert receiver.receive() == []
    sender.close()
    receiver.close()


def test_a_port_in_use_and_a_foreign_address_are_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"UDP port {port} of 127.0.0.1: .*\nhint: "):
            StatusReceiver("127.0.0.1", port)
    with pytest.raises(ConfigurationError, match=r"of 192\.0\.2\.1"):
        StatusReceiver("192.0.2.1")
