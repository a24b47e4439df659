"""TLS of a broker: one certificate for all its ports, and the limits of handshakes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from magnetar.admin.metrics.tls import TlsState
from magnetar.broker.tls.certificates import TlsFiles
from magnetar.broker.tls.connection import HANDSHAKE_READ_BYTES, SecurePort
from magnetar.broker.tls.handshakes import WAITING_MAX, Handshakes
from magnetar.broker.tls.renewal import Certificates, Policy
from magnetar.security.tls_versions import parse_versions

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from magnetar.base.world import Clock
    from magnetar.broker.loop.turns import LoopTurns
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.broker.settings.config import BrokerConfig
    from magnetar.security.audit import AuditEvent

BINARY: Final = "brokerServicePortTls"
WEB: Final = "webServicePortTls"

CHECK_S: Final = 0.25
"""Seconds between two checks for handshakes that take too long."""

READ_BYTES: Final = 16 * HANDSHAKE_READ_BYTES
"""Maximum bytes that are read at once from a client of the web server."""


class BrokerTls:
    """The certificate, and the handshakes on all ports."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        turns: LoopTurns,
        hits: LimitHits,
        handshakes_max: int = WAITING_MAX,
        record: Callable[[AuditEvent], None] = lambda _: None,
    ) -> None:
        """Load the certificate; raises ConfigurationError with the file and the fix if that fails.

        ``handshakes_max`` is the maximum number of clients whose handshake is not complete. ``record`` gets the events
        of clients that are refused because of their certificates.
        """
        trust = "" if config.tlsAllowInsecureConnection else config.tlsTrustCertsFilePath
        files = TlsFiles(config.tlsCertificateFilePath, config.tlsKeyFilePath, trust)
        required = config.tlsRequireTrustedClientCertOnConnect
        binary = parse_versions(config.tlsProtocols, config.tlsCiphers)
        web = parse_versions(config.webServiceTlsProtocols, config.webServiceTlsCiphers)
        policies = {BINARY: Policy(binary, required), WEB: Policy(web, required, "http/1.1")}
        self._certificates = Certificates(files, policies, clock.now)
        self._certificates.load()
        self._renewal_s = config.tlsCertRefreshCheckDurationSec
        running_max, timeout_s = config.maxConcurrentTlsHandshakes, config.tlsHandshakeTimeoutSeconds
        self._handshakes = Handshakes(running_max, timeout_s, hits, handshakes_max)
        self._turns = turns
        self._clock = clock
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._record = record
        self._timer: asyncio.TimerHandle | None = None

    def port(self, name: str) -> SecurePort:
        """Return a port, by its setting."""
        context = partial(self._certificates.context, name)
        return SecurePort(name, context, self._handshakes, self._turns, self._clock, self._buffer, self._record)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to check handshakes, and the files of the certificate."""
        self._certificates.start(loop, self._renewal_s)
        self._check(loop)

    def stop(self) -> None:
        """Give up the handshakes in progress, and stop checking."""
        self._certificates.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._handshakes.stop()

    def state(self) -> TlsState:
        """Return the state for the metrics."""
        return TlsState(
            certificate_expiry=self._certificates.expiry,
            is_renewal_refused=self._certificates.failure is not None,
            handshakes=self._handshakes.succeeded,
            failed_handshakes=self._handshakes.failed,
            handshakes_in_progress=self._handshakes.in_progress,
        )

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        self._handshakes.check(self._clock.monotonic())
        self._timer = loop.call_later(CHECK_S, self._check, loop)
