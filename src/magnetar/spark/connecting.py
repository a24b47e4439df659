"""Clients of the cluster of a query, with its credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.client import AdminClient
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.security.client_conf import credentials_in

if TYPE_CHECKING:
    from magnetar.spark.options import Options


def admin_client(options: Options) -> AdminClient:
    """Return a client of the admin API; raises ConfigurationError if the credentials cannot be read."""
    return AdminClient(options.admin_url, credentials=credentials_in(options.client_conf))


def pulsar_client(options: Options) -> PulsarClient:
    """Return a client of the brokers; raises as ``admin_client``."""
    return PulsarClient(options.service_url, ClientOptions(credentials=credentials_in(options.client_conf)))
