"""The choice among the providers of a broker, as in Pulsar's ``AuthenticationService``."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.security.principal import Principal
from magnetar.security.providers.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.security.providers.proof import Certificate, Provider

_ANONYMOUS: Final = "none"

_BEARER: Final = "Bearer "

_BASIC: Final = "basic "


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """The headers of a REST request that concern authentication, and the certificate of its connection."""

    authorization: str = field(default="", repr=False)
    """Header ``Authorization``."""
    method: str = ""
    """Header ``X-Pulsar-Auth-Method-Name``."""
    original_principal: str = ""
    """Header ``X-Original-Principal``."""
    certificate: Certificate | None = None
    """Verified certificate of the connection; None without one."""


@dataclass(frozen=True, slots=True)
class Original:
    """The client of a proxy, as the proxy describes it in CONNECT."""

    principal: str = ""
    """``original_principal``."""
    proof: Proof | None = None
    """``original_auth_data``, if it is to be checked (``authenticateOriginalAuthData``)."""


NO_ORIGINAL: Final = Original()


class AuthenticationService:
    """Authenticates connections and requests."""

    def __init__(
        self, providers: Sequence[Provider], anonymous_role: str = "", proxy_roles: frozenset[str] = frozenset()
    ) -> None:
        """Use ``providers``; several of one method are tried in their order."""
        self._providers: dict[str, list[Provider]] = {}
        for provider in providers:
            self._providers.setdefault(provider.method, []).append(provider)
        self._anonymous_role = anonymous_role
        self._proxy_roles = proxy_roles

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods of the providers."""
        return tuple(self._providers)

    async def authenticate(self, proof: Proof, now: float, original: Original = NO_ORIGINAL) -> Principal:
        """Return the principal of a connection; raises AuthenticationFailedError.

        A client with a method of no provider has ``anonymousUserRole``, if there is one.
        """
        principal = await self._prove(proof, now)
        if original.proof is None:
            return self._for_original(principal, original.principal)
        proved = await self._prove(original.proof, now)
        if original.principal and original.principal != proved.role:
            message = "the original principal is not the role that its credentials prove"
            raise AuthenticationFailedError(message, AuthenticationFailure.ORIGINAL_PRINCIPAL)
        both = self._for_original(principal, proved.role)
        times = [each.expires_at for each in (principal, proved) if each.expires_at is not None]
        return replace(both, expires_at=min(times, default=None))

    async def authenticate_request(self, request: RequestCredentials, now: float) -> Principal:
        """Return the principal of a REST request; raises AuthenticationFailedError.

        Unlike in Pulsar, a request whose credentials are wrong is not anonymous.
        """
        proof = self.proof_of(request)
        if proof is None and not self._anonymous_role:
            message = "the request has no credentials of a method that the broker accepts"
            raise AuthenticationFailedError(message, AuthenticationFailure.MISSING)
        principal = self._anonymous() if proof is None else await self._prove(proof, now)
        original = "" if request.original_principal == principal.role else request.original_principal
        return self._for_original(principal, original)

    def close(self) -> None:
        """Close the providers."""
        for providers in self._providers.values():
            for provider in providers:
                provider.close()

    async def _prove(self, proof: Proof, now: float) -> Principal:
        providers = self._providers.get(proof.method)
        if providers is None:
            if not self._anonymous_role:
                message = "there is no provider for the method of the client, and no anonymous role"
                raise AuthenticationFailedError(message, AuthenticationFailure.MISSING)
            return self._anonymous()
        for provider in providers[:-1]:
            try:
                return await provider.authenticate(proof, now)
            except AuthenticationFailedError:
                continue
        return await providers[-1].authenticate(proof, now)

    def _anonymous(self) -> Principal:
        return Principal(self._anonymous_role, _ANONYMOUS)

    def _for_original(self, principal: Principal, original: str) -> Principal:
        """Return the principal with its original one, which a proxy must have, and others must not have."""
        if principal.role not in self._proxy_roles:
            if original:
                message = "the client states an original principal, but its role is not among the proxyRoles"
                raise AuthenticationFailedError(message, AuthenticationFailure.ORIGINAL_PRINCIPAL)
            return principal
        if not original.strip() or original in self._proxy_roles:
            message = "the client is a proxy, and its original principal is missing or a proxy, too"
            raise AuthenticationFailedError(message, AuthenticationFailure.ORIGINAL_PRINCIPAL)
        return replace(principal, original=original)

    def proof_of(self, request: RequestCredentials) -> Proof | None:
        """Return the proof in a request; None if it has none of a method that the broker accepts."""
        found = _in_header(request.authorization)
        if found is None and request.certificate is not None:
            found = Proof("tls", certificate=request.certificate)
        if request.method and (found is None or found.method != request.method):
            found = Proof(request.method, certificate=request.certificate)
        return found if found is not None and found.method in self._providers else None


def _in_header(value: str) -> Proof | None:
    """Return the credentials of the header Authorization (RFC 6750, RFC 7617); None if there are none."""
    if value.startswith(_BEARER):
        return Proof("token", value.removeprefix(_BEARER).encode())
    if not value.lower().startswith(_BASIC):
        return None
    try:
        return Proof("basic", base64.b64decode(value[len(_BASIC) :].strip(), validate=True))
    except (ValueError, binascii.Error):
        return Proof("basic")
