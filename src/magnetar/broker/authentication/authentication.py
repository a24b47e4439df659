"""Authentication of the clients of one broker: failed attempts are slowed down, counted and logged."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.base.limits import Limit
from magnetar.security.attempts import Attempts
from magnetar.security.audit import AuditEvent, Kind, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.base.world import Clock
    from magnetar.broker.resources.limit_hits import LimitHits
    from magnetar.security.principal import Principal
    from magnetar.security.providers.proof import Proof
    from magnetar.security.providers.service import AuthenticationService, Original, RequestCredentials

log = structlog.get_logger(__name__)

_OTHER = "other"
"""Name of a method without a provider, in metrics and in the log: clients choose it."""

_NO_GUESS = frozenset({AuthenticationFailure.MISSING, AuthenticationFailure.LIMIT, AuthenticationFailure.ISSUER})
"""Failures that do not slow the address down: nothing was guessed."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of an attempt, for the limits and the log."""

    address: str
    """IP address."""
    shown: str
    """Address with the port, as the log shows it."""
    program: str = ""
    """Name of the program that the client states."""


class Authentication:
    """Used on the event loop's thread."""

    def __init__(
        self,
        service: AuthenticationService,
        clock: Clock,
        limit_hits: LimitHits,
        record: Callable[[AuditEvent], None] = lambda _: None,
    ) -> None:
        """Authenticate with ``service``; ``record`` gets each failure."""
        self._service = service
        self._record = record
        self._clock = clock
        self._limit_hits = limit_hits
        self._attempts = Attempts()
        self.successes: Counter[str] = Counter()
        """By method, since the start of the broker."""
        self.failures: Counter[tuple[str, AuthenticationFailure]] = Counter()
        """By method and kind, since the start of the broker."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The accepted methods."""
        return self._service.methods

    async def of_connection(self, proof: Proof, original: Original, peer: Peer) -> Principal:
        """Return the principal of a connection; raises AuthenticationFailedError."""
        return await self._attempt(
            lambda: self._service.authenticate(proof, self._clock.now(), original), proof.method, peer
        )

    async def of_request(self, credentials: RequestCredentials, peer: Peer) -> Principal:
        """Return the principal of a REST request; raises AuthenticationFailedError."""
        proof = self._service.proof_of(credentials)
        return await self._attempt(
            lambda: self._service.authenticate_request(credentials, self._clock.now()),
            _OTHER if proof is None else proof.method,
            peer,
        )

    def close(self) -> None:
        """Close the providers."""
        self._service.close()

    async def _attempt(self, check: Callable[[], Awaitable[Principal]], method: str, peer: Peer) -> Principal:
        method = method if method in self._service.methods else _OTHER
        attempt = self._attempts.begin(peer.address, self._clock.monotonic())
        if attempt is None:
            message = f"too many attempts from the address have failed ({Limit.AUTHENTICATION_ATTEMPTS})"
            limit = Limit.AUTHENTICATION_ATTEMPTS
            raise self._noted(AuthenticationFailedError(message, AuthenticationFailure.LIMIT, limit), method, peer)
        is_guess = True  # also for a client that disconnects before it is refused
        try:
            if attempt.wait_s:
                self._limit_hits.hit(Limit.AUTHENTICATION_ATTEMPTS)
                await asyncio.sleep(attempt.wait_s)
            principal = await check()
            is_guess = False
        except AuthenticationFailedError as error:
            is_guess = error.kind not in _NO_GUESS
            raise self._noted(error, method, peer) from None
        except Exception as error:  # noqa: BLE001 - the root of the work for one proof: a defect gives no access
            # The text of the error and the values in its frames may contain the proof.
            last = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{last.filename}:{last.lineno}"
            log.error("authentication_defect", method=method, error=type(error).__name__, where=where)  # noqa: TRY400
            message = "the broker has a defect"
            raise self._noted(AuthenticationFailedError(message, AuthenticationFailure.DEFECT), method, peer) from None
        finally:
            end = self._attempts.failed if is_guess else self._attempts.succeeded
            end(attempt, self._clock.monotonic())
        self.successes[method] += 1
        return principal

    def _noted(self, error: AuthenticationFailedError, method: str, peer: Peer) -> AuthenticationFailedError:
        """Count and log a failure, and return it."""
        self.failures[method, error.kind] += 1
        self._limit_hits.note(error)
        reason = str(error)
        log.warning("authentication_failed", address=peer.shown, client=peer.program, method=method, reason=reason)
        self._record(AuditEvent(Kind.AUTHENTICATION, Result.DENIED, method, address=peer.shown, reason=reason))
        return error
