"""Pulsar's ``client.conf``: the URLs of a cluster, and credentials for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from magnetar.base.errors import ConfigurationError
from magnetar.base.java_properties import parse_properties
from magnetar.security.credentials import NONE, Credentials
from magnetar.security.files import read_text

VARIABLE: Final = "PULSAR_CLIENT_CONF"
"""Variable of the environment with the path of the file, as for Pulsar's own programs."""

_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ClientConf:
    """The settings of the file; those of Pulsar's own tools are ignored."""

    service_url: str
    """``brokerServiceUrl``; empty if it is not set."""
    admin_url: str
    """``webServiceUrl``; empty if it is not set."""
    credentials: Credentials


def credentials_in(path: str) -> Credentials:
    """Return the credentials in a file, or without a path in that of VARIABLE; without both, none.

    Each process reads them on its own machine, so that they are never passed on. Raises as ``read_client_conf``.
    """
    path = path or os.environ.get(VARIABLE, "")
    return read_client_conf(path).credentials if path else NONE


def check_credentials(path: str) -> None:
    """Read the credentials and all files that they name; raises ConfigurationError if one cannot be used."""
    found = credentials_in(path)
    found.authentication.data()
    found.tls()


def read_client_conf(path: str) -> ClientConf:
    """Read a file; raises ConfigurationError, with its path, if that fails, or for an invalid or unsupported value."""
    return parse_client_conf(read_text(path), path)


def parse_client_conf(text: str, name: str) -> ClientConf:
    """Parse the text of the file ``name``; raises ConfigurationError for an invalid or unsupported value."""
    values = parse_properties(text, name)
    try:
        return ClientConf(values.get("brokerServiceUrl", ""), values.get("webServiceUrl", ""), _credentials(values))
    except ConfigurationError as error:
        message = f"{name}: {error}"
        raise ConfigurationError(message) from None


def _credentials(values: dict[str, str]) -> Credentials:
    if _boolean(values, "useKeyStoreTls", default=False):
        message = "useKeyStoreTls: key stores of Java are not supported\nhint: convert them to PEM files"
        raise ConfigurationError(message)
    return Credentials(
        auth_plugin=values.get("authPlugin", ""),
        auth_params=values.get("authParams", ""),
        tls_trust_certs_file_path=values.get("tlsTrustCertsFilePath", ""),
        tls_certificate_file_path=values.get("tlsCertificateFilePath", ""),
        tls_key_file_path=values.get("tlsKeyFilePath", ""),
        tls_allow_insecure_connection=_boolean(values, "tlsAllowInsecureConnection", default=False),
        tls_enable_hostname_verification=_boolean(values, "tlsEnableHostnameVerification", default=True),
    )


def _boolean(values: dict[str, str], key: str, *, default: bool) -> bool:
    text = values.get(key, "").lower()
    if not text:
        return default
    if text not in _BOOLEANS:
        message = f"{key} must be true or false, not {values[key]}"
        raise ConfigurationError(message)
    return _BOOLEANS[text]
