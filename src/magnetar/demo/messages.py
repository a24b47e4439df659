"""The official client for the processes of the demo, and the identity of its messages."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pulsar

from magnetar.demo.plan import FLIGHT_PROPERTY
from magnetar.wire.entries.origin import SOURCE_POSITION

if TYPE_CHECKING:
    from magnetar.demo.tally import Entry

OPERATION_TIMEOUT_SECONDS = 30


def connect(service_url: str) -> pulsar.Client:
    """Create a client without log output, because brokers are killed on purpose."""
    return pulsar.Client(
        service_url,
        operation_timeout_seconds=OPERATION_TIMEOUT_SECONDS,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )


def entry_of(message: pulsar.Message) -> Entry:
    """Return the flight of ``message`` and its origin position, which is the same in every cluster."""
    properties = message.properties()
    position = properties.get(SOURCE_POSITION)
    if position is None:  # published in this cluster
        message_id = message.message_id()
        position = f"{message_id.ledger_id()}:{message_id.entry_id()}"
    return int(properties[FLIGHT_PROPERTY]), position


def now_ms() -> float:
    """Return milliseconds since the epoch; the demo runs on one machine with one clock."""
    return time.time() * 1000
