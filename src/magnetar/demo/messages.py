"""The official client, as every process of the demo uses it, and what its messages say of themselves."""

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
    """A client that keeps its log to itself: brokers die here on purpose."""
    return pulsar.Client(
        service_url,
        operation_timeout_seconds=OPERATION_TIMEOUT_SECONDS,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )


def entry_of(message: pulsar.Message) -> Entry:
    """The flight that ``message`` carries and its origin position, the same in whichever cluster it is read."""
    properties = message.properties()
    position = properties.get(SOURCE_POSITION)
    if position is None:  # produced where it is read
        message_id = message.message_id()
        position = f"{message_id.ledger_id()}:{message_id.entry_id()}"
    return int(properties[FLIGHT_PROPERTY]), position


def now_ms() -> float:
    """Milliseconds since the epoch; all of the demo runs on one machine, with one clock."""
    return time.time() * 1000
