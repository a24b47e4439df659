"""Clients of the cluster of a query, with its credentials."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.security.client_conf import VARIABLE, read_client_conf
from magnetar.security.credentials import NONE, Credentials

if TYPE_CHECKING:
    from magnetar.spark.options import Options


def admin_client(options: Options) -> AdminClient:
    """Return a client of the admin API; raises ConfigurationError if the credentials cannot be read."""
    return AdminClient(options.admin_url, credentials=_credentials(options))


def pulsar_client(options: Options) -> PulsarClient:
    """Return a client of the brokers; raises as ``admin_client``."""
    return PulsarClient(options.service_url, ClientOptions(credentials=_credentials(options)))


def _credentials(options: Options) -> Credentials:
    """Read the credentials where this process runs: on the driver, or on an executor."""
    path = options.client_conf or os.environ.get(VARIABLE, "")
    return read_client_conf(path).credentials if path else NONE
