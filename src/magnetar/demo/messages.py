"""The official client for the processes of the demo, and the identity of its messages."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulsar

from magnetar.client.options import ClientOptions
from magnetar.demo.plan import FLIGHT_PROPERTY
from magnetar.security.credentials import NONE, Credentials
from magnetar.wire.entries.origin import SOURCE_POSITION

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.demo.tally import Entry

OPERATION_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Access:
    """The way to a cluster."""

    service_url: str
    token: Path | None = None
    """File with the token that clients present; None: they present nothing."""
    trust: Path | None = None
    """Certificate of the authority that clients trust."""

    @property
    def options(self) -> ClientOptions:
        """Options of Magnetar's client."""
        return ClientOptions(credentials=credentials_of(self.token, self.trust))


def credentials_of(token: Path | None, trust: Path | None) -> Credentials:
    """Return the credentials in these files."""
    if token is None:
        return NONE
    return Credentials(auth_params=token.as_uri(), tls_trust_certs_file_path="" if trust is None else str(trust))


def connect(access: Access) -> pulsar.Client:
    """Create a client without log output, because brokers are killed on purpose."""
    token = access.token
    secured = {} if token is None else {"authentication": pulsar.AuthenticationToken(token.read_text())}
    return pulsar.Client(
        access.service_url,
        operation_timeout_seconds=OPERATION_TIMEOUT_SECONDS,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        tls_trust_certs_file_path=None if access.trust is None else str(access.trust),
        tls_validate_hostname=access.trust is not None,
        **secured,
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
