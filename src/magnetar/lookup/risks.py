"""The risks that an instance reports: in its log, with its health, and as a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magnetar.security.exposure import reachable, readable_secrets, unauthenticated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.lookup.options import LookupOptions
    from magnetar.security.exposure import Finding, ListeningPort

_HINT: Final = "set authenticationEnabled=true in the brokers, and give the service credentials with --client-conf"


def find_risks(options: LookupOptions, ports: Sequence[ListeningPort]) -> list[Finding]:
    """Return the risks of an instance that listens on ``ports``.

    It authenticates nobody itself. If it needs no credentials for the brokers, its clients need none either.
    """
    findings = []
    if options.credentials.is_anonymous:
        findings = unauthenticated(reachable(ports), "the service uses brokers without credentials", _HINT)
    key = [] if options.tls_key is None else [("--tls-key", str(options.tls_key))]
    return [*findings, *readable_secrets(key)]
