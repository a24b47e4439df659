"""The contexts of new connections. They are replaced when the files of the certificate have changed."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import ConfigurationError
from magnetar.base.tasks import start_task
from magnetar.broker.tls.certificates import Contents, TlsFiles, expiry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from magnetar.security.tls_versions import Versions

log = structlog.get_logger(__name__)

CHECK_MIN_S = 1.0
"""Minimum seconds between two checks of the files."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a port requires of its connections."""

    versions: Versions
    requires_client_certificate: bool = False
    protocol: str = ""
    """Protocol above TLS (ALPN); empty: none."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    contexts: Mapping[str, ssl.SSLContext]
    expiry: float


class Certificates:
    """The certificate of the broker, and a context for each port, by its setting."""

    def __init__(self, files: TlsFiles, policies: Mapping[str, Policy], now: Callable[[], float]) -> None:
        """Create it without a certificate; call ``load`` first. ``now`` returns the seconds since the epoch."""
        self._files = files
        self._policies = policies
        self._now = now
        self._seen: Contents | None = None
        """Contents of the files at the last check; None if they could not be read."""
        self._loaded: _Loaded
        self._failure: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def expiry(self) -> float:
        """When the certificate in use expires, in seconds since the epoch."""
        return self._loaded.expiry

    @property
    def failure(self) -> str | None:
        """Why the present files are not used; None if they are."""
        return self._failure

    def context(self, port: str) -> ssl.SSLContext:
        """Return the context of new connections to a port."""
        return self._loaded.contexts[port]

    def load(self) -> None:
        """Load the files; raises ConfigurationError with the file and the fix if they cannot be used."""
        self._seen = self._files.read()
        self._loaded = self._load(self._seen)

    def check(self) -> None:
        """Use the files if their contents have changed. If they cannot be used, the former certificate stays in use.

        It may run in any thread, but not in two at the same time. Each failure is logged once.
        """
        contents: Contents | None = None
        failure: str | None = None
        try:
            contents = self._files.read()
            if contents != self._seen or self._failure is not None:  # it may have become valid
                self._loaded = self._load(contents)
        except ConfigurationError as error:
            failure = str(error)
        if (contents, failure) == (self._seen, self._failure):
            return
        self._seen, self._failure = contents, failure
        facts = {"file": self._files.certificate, "expiry": self._loaded.expiry}
        if failure is None:
            log.info("certificate_renewed", **facts)
        else:
            log.error("certificate_not_renewed", **facts, reason=failure)

    def start(self, loop: asyncio.AbstractEventLoop, interval_s: float) -> None:
        """Check the files every ``interval_s`` seconds, but at most once per second."""
        self._task = start_task(loop, self._check_each(max(interval_s, CHECK_MIN_S)), "renewal of certificates")

    def stop(self) -> None:
        """Stop checking."""
        if self._task is not None:
            self._task.cancel()

    async def _check_each(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await asyncio.to_thread(self.check)

    def _load(self, contents: Contents) -> _Loaded:
        ends = expiry(self._files, contents, self._now())
        return _Loaded({port: self._context(policy) for port, policy in self._policies.items()}, ends)

    def _context(self, policy: Policy) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        policy.versions.apply(context)
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            context.load_cert_chain(files.certificate, files.key)
            if files.trust:
                context.load_verify_locations(files.trust)
        except OSError as error:  # an SSLError, or the files have changed since they were checked
            message = f"OpenSSL cannot use {files.certificate} with {files.key} and {files.trust}: {error}"
            raise ConfigurationError(message) from error
        if files.trust:
            is_required = policy.requires_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Java, which trusts each certificate of the file
        if policy.protocol:
            context.set_alpn_protocols([policy.protocol])
        return context
