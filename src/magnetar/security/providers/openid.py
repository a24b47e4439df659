"""``AuthenticationProviderOpenID``: tokens of OpenID Connect issuers, which publish their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt

from magnetar.base.errors import AuthenticationFailedError
from magnetar.security.principal import Principal
from magnetar.security.providers.tokens import (
    METHOD,
    TOKEN_BYTES_MAX,
    check_audience,
    check_times,
    role_of,
    time_of,
    verified_claims,
)

if TYPE_CHECKING:
    from magnetar.security.providers.issuers import IssuerKeys
    from magnetar.security.providers.proof import Proof


@dataclass(frozen=True, slots=True)
class OpenIdOptions:
    """The settings of the provider."""

    issuers: frozenset[str]
    """``openIDAllowedTokenIssuers``."""
    audiences: frozenset[str]
    """``openIDAllowedAudiences``."""
    role_claim: str = "sub"
    leeway_s: float = 0.0
    """``openIDAcceptedTimeLeewaySeconds``."""


class OpenIdProvider:
    """Checks tokens with the keys of their issuers, if these are allowed."""

    method = METHOD

    def __init__(self, options: OpenIdOptions, keys: IssuerKeys) -> None:
        """Check tokens as ``options`` say."""
        self._options = options
        self._keys = keys

    async def authenticate(self, proof: Proof, now: float) -> Principal:
        """See Provider."""
        options = self._options
        issuer, key_id = stated(proof.data)
        if issuer not in options.issuers:
            message = "the issuer of the token is not among openIDAllowedTokenIssuers"
            raise AuthenticationFailedError(message)
        claims = verified_claims(proof.data, await self._keys.find(issuer, key_id, now))
        expires_at = check_claims(claims, now, options.leeway_s)
        check_audience(claims.get("aud"), options.audiences)
        return Principal(role_of(claims, options.role_claim), METHOD, expires_at=expires_at)

    def close(self) -> None:
        """See Provider."""
        self._keys.close()


def stated(token: bytes) -> tuple[str, str | None]:
    """Return the issuer and the key id that a token states, not verified; raises AuthenticationFailedError."""
    try:
        found: dict[str, Any] = jwt.decode_complete(token[:TOKEN_BYTES_MAX], options={"verify_signature": False})
        issuer, key_id = found["payload"].get("iss"), found["header"].get("kid")
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError, LookupError, AttributeError):
        issuer = key_id = None
    if not isinstance(issuer, str) or not isinstance(key_id, str | None):
        message = "the token is not a token of an issuer"
        raise AuthenticationFailedError(message)
    return issuer, key_id


def check_claims(claims: dict[str, Any], now: float, leeway_s: float) -> float:
    """Return the time at which the claims expire; raises AuthenticationFailedError if they are not valid now.

    A token must state when it was issued, and when it expires.
    """
    issued, expires_at = time_of(claims, "iat"), check_times(claims, now, leeway_s)
    if issued is None or expires_at is None or not isinstance(claims.get("sub"), str):
        message = "the token lacks one of the claims iat, exp and sub"
        raise AuthenticationFailedError(message)
    if issued > now + leeway_s:
        message = "the token was issued in the future"
        raise AuthenticationFailedError(message)
    return expires_at
