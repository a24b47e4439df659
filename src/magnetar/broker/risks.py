"""The risks that a broker reports: in its log, with its health, and as a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from magnetar.broker.settings.sections.authorization import names_in
from magnetar.security.exposure import file_of, is_loopback, reachable, readable_secrets, unauthenticated
from magnetar.wire.listeners import parse_endpoints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.security.exposure import Finding, ListeningPort

log = structlog.get_logger(__name__)

_HINT: Final = "set authenticationEnabled=true and authorizationEnabled=true, or bindAddress=127.0.0.1"

_ANONYMOUS_HINT: Final = "remove anonymousUserRole, or restrict it with authorizationEnabled=true"


def find_risks(config: BrokerConfig, ports: Sequence[ListeningPort]) -> list[Finding]:
    """Return the risks of a broker that listens on ``ports``."""
    return [*_open_ports(config, ports), *readable_secrets(_secret_files(config))]


def log_risks(findings: Sequence[Finding]) -> None:
    """Write each risk to the log."""
    for finding in findings:
        log.warning("security_risk", risk=finding.risk.value, reason=finding.text, remedy=finding.hint)


def _open_ports(config: BrokerConfig, ports: Sequence[ListeningPort]) -> list[Finding]:
    anonymous = config.anonymousUserRole
    hosts = [config.advertisedAddress, *(each.host for each in parse_endpoints(config.advertisedListeners))]
    found = reachable(ports, next((host for host in hosts if not is_loopback(host)), ""))
    if not config.authenticationEnabled:
        return unauthenticated(found, "each client may do everything", _HINT)
    if anonymous and (not config.authorizationEnabled or anonymous in names_in(config.superUserRoles)):
        reason = f"each client may do everything as the anonymousUserRole {anonymous}"
        return unauthenticated(found, reason, _ANONYMOUS_HINT)
    return []


def _secret_files(config: BrokerConfig) -> list[tuple[str, str]]:
    found = {
        "tlsKeyFilePath": config.tlsKeyFilePath if config.has_tls else "",
        "brokerClientKeyFilePath": config.brokerClientKeyFilePath,
        "tokenSecretKey": file_of(config.tokenSecretKey),
        "basicAuthConf": file_of(config.basicAuthConf) or config.basicAuthConf,
        "brokerClientAuthenticationParameters": file_of(config.brokerClientAuthenticationParameters),
    }
    return [(name, path) for name, path in found.items() if path]
