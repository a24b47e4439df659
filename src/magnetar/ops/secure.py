"""TLS, tokens and permissions of development clusters (``magnetar up --secure``).

Everything is below one directory, which only its owner can read. The authority, the key of tokens and the tokens stay
from one start to the next; certificates are issued again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import ConfigurationError
from magnetar.ops.certificates import Authority, new_authority
from magnetar.security.credentials import Credentials
from magnetar.security.providers.issuing import new_secret_key, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

ADMIN: Final = "admin"
"""The superuser, whom commands act for."""

APPLICATION: Final = "app"
"""A role without permissions, for clients that are tried."""

PIPELINE: Final = "pipeline"

_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Security:
    """The files of development clusters."""

    directory: Path
    clusters: tuple[str, ...]

    @property
    def trust(self) -> Path:
        """Certificate of the authority, which clients trust."""
        return self.directory / "ca.pem"

    def token(self, role: str) -> Path:
        """File with the token of a role."""
        return self.directory / f"{role}.token"

    def conf(self, role: str) -> Path:
        """A client.conf of a role."""
        return self.directory / f"{role}.conf"

    @property
    def credentials(self) -> Credentials:
        """Return the credentials of the superuser."""
        return Credentials(auth_params=self.token(ADMIN).as_uri(), tls_trust_certs_file_path=str(self.trust))

    def endpoints(self) -> dict[str, object]:
        """Return the files that clients need, in the form that ``--output json`` prints."""
        roles = (ADMIN, APPLICATION)
        return {"trust": str(self.trust), "tokens": {role: str(self.token(role)) for role in roles}}

    def settings(self, cluster: str, ports: tuple[int, int]) -> dict[str, str]:
        """Return the settings of a broker: TLS only, on the ports of the binary protocol and of REST; default deny."""
        brokers = [f"{broker_role(each)}={each}" for each in self.clusters]
        return {
            "brokerServicePort": "",
            "webServicePort": "",
            "brokerServicePortTls": str(ports[0]),
            "webServicePortTls": str(ports[1]),
            "tlsCertificateFilePath": str(self.directory / f"{cluster}.pem"),
            "tlsKeyFilePath": str(self.directory / f"{cluster}.key"),
            "brokerClientTlsEnabled": "true",
            "brokerClientTrustCertsFilePath": str(self.trust),
            "authenticationEnabled": "true",
            "authenticationProviders": "token",
            "tokenSecretKey": (self.directory / "token.key").as_uri(),
            "brokerClientAuthenticationPlugin": "token",
            "brokerClientAuthenticationParameters": self.token(broker_role(cluster)).as_uri(),
            "authorizationEnabled": "true",
            "superUserRoles": f"{ADMIN},{broker_role(cluster)}",
            "replicatorRoles": ",".join([f"{PIPELINE}=*", *brokers]),
        }


def broker_role(cluster: str) -> str:
    """Return the role of a broker: it replicates for its cluster."""
    return f"broker-{cluster}"


def set_up(directory: Path, clusters: Sequence[str], now: datetime) -> Security:
    """Write what is missing below ``directory``, and new certificates; raises ConfigurationError if that fails."""
    found = Security(directory, tuple(clusters))
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        _issue(found, now)
        _write_tokens(found)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        message = f"cannot use the keys and tokens in {directory}: {reason}\nhint: delete the directory"
        raise ConfigurationError(message) from error
    return found


def _issue(security: Security, now: datetime) -> None:
    key_file = security.directory / "ca.key"
    if not (security.trust.exists() and key_file.exists()):
        certificate, key = new_authority("magnetar up", now)
        _write(key_file, key)
        _write(security.trust, certificate)
    authority = Authority(security.trust.read_bytes(), key_file.read_bytes())
    for cluster in security.clusters:
        certificate, key = authority.issue(broker_role(cluster), _HOSTS, now)
        _write(security.directory / f"{cluster}.pem", certificate)
        _write(security.directory / f"{cluster}.key", key)


def _write_tokens(security: Security) -> None:
    key_file = security.directory / "token.key"
    _write_missing(key_file, lambda: new_secret_key("HS256"))
    key = key_file.read_bytes()
    for role in (ADMIN, APPLICATION, PIPELINE, *map(broker_role, security.clusters)):
        _write_missing(security.token(role), lambda: new_token(key, role).encode())  # noqa: B023 - called at once
    for role in (ADMIN, PIPELINE):
        settings = {
            "authPlugin": "token",
            "authParams": security.token(role).as_uri(),
            "tlsTrustCertsFilePath": str(security.trust),
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        _write(security.conf(role), text.encode())


def _write_missing(file: Path, make: Callable[[], bytes]) -> None:
    if not file.exists():
        _write(file, make())


def _write(file: Path, data: bytes) -> None:
    """Replace a file, which only its owner can read."""
    new = file.with_name(f"{file.name}.new")
    with open(new, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as stream:
        stream.write(data)
    new.replace(file)
