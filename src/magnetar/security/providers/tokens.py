"""``AuthenticationProviderToken``: JSON Web Tokens signed with a secret key or a key pair."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import jwt

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.security.principal import Principal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.security.providers.keys import VerificationKey
    from magnetar.security.providers.proof import Proof

METHOD: Final = "token"

TOKEN_BYTES_MAX: Final = 64 * 1024
"""Maximum bytes of a token; the frames of the handshake and the headers of requests are not larger."""

_FORM: Final = re.compile(rb"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
"""A signed token (RFC 7515, section 7.1). The decoder of base64 would skip all other characters."""

_CHECKS: Final = {
    "verify_signature": True,
    # Checked below, against the time that is passed; other claims have a meaning of their own in Pulsar.
    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub"), False),
    "verify_jti": False,
}


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """The settings of the provider."""

    key: VerificationKey
    auth_claim: str = "sub"
    """Claim with the role (``tokenAuthClaim``)."""
    audience_claim: str = ""
    """Claim with the audiences (``tokenAudienceClaim``); empty: they are not checked."""
    audience: str = ""
    """The audience that this broker is (``tokenAudience``)."""
    clock_skew_s: float = 0.0
    """Seconds for which an expired token is accepted (``tokenAllowedClockSkewSeconds``)."""


class TokenProvider:
    """Checks tokens."""

    method = METHOD

    def __init__(self, options: TokenOptions) -> None:
        """Check tokens as ``options`` say."""
        self._options = options

    async def authenticate(self, proof: Proof, now: float) -> Principal:
        """See Provider."""
        options = self._options
        claims = verified_claims(proof.data, options.key)
        expires_at = check_times(claims, now, options.clock_skew_s)
        if options.audience_claim:
            check_audience(claims.get(options.audience_claim), {options.audience})
        return Principal(role_of(claims, options.auth_claim), METHOD, expires_at=expires_at)

    def close(self) -> None:
        """See Provider; there is nothing to release."""


def verified_claims(token: bytes, key: VerificationKey) -> dict[str, Any]:
    """Return the claims of a token that ``key`` has signed; raises AuthenticationFailedError for any other bytes.

    White space around it is ignored: clients that read tokens from files send the end of the line, too.
    """
    token = token.strip()
    if not token or len(token) > TOKEN_BYTES_MAX:
        message = "the token is empty or too large"
        raise AuthenticationFailedError(message)
    if not _FORM.fullmatch(token):
        message = "the token does not have the form of a signed token"
        raise AuthenticationFailedError(message)
    try:
        # PyJWT's types do not know that it accepts keys of the library cryptography for all algorithms.
        return jwt.decode(token, key.key, algorithms=list(key.algorithms), options=_CHECKS)  # type: ignore[arg-type]
    except jwt.InvalidAlgorithmError:
        message = "the algorithm of the token does not fit the key of the broker"
    except jwt.InvalidSignatureError:
        message = "the signature of the token does not fit the key of the broker"
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError, LookupError):
        message = "the token is not a valid signed token"
    raise AuthenticationFailedError(message)


def check_times(claims: Mapping[str, Any], now: float, skew_s: float) -> float | None:
    """Return the time at which claims expire, including the accepted skew; None: never.

    Raises AuthenticationFailedError if they have expired, or are not valid yet.
    """
    begins, ends = time_of(claims, "nbf"), time_of(claims, "exp")
    if begins is not None and now < begins - skew_s:
        message = "the token is not valid yet"
        raise AuthenticationFailedError(message)
    if ends is None:
        return None
    if now >= ends + skew_s:
        message = "the token has expired"
        raise AuthenticationFailedError(message, AuthenticationFailure.EXPIRED)
    return ends + skew_s


def check_audience(found: object, allowed: set[str] | frozenset[str]) -> None:
    """Raise AuthenticationFailedError unless an audience ``found`` in a token is among the ``allowed`` ones."""
    audiences = found if isinstance(found, list) else [found]
    if not any(isinstance(each, str) and each in allowed for each in audiences):
        message = "the token is not for the audience of this broker"
        raise AuthenticationFailedError(message)


def role_of(claims: Mapping[str, Any], claim: str) -> str:
    """Return the role in ``claim``, of a list the first; raises AuthenticationFailedError if there is none."""
    found = claims.get(claim)
    if isinstance(found, list) and found:
        found = found[0]
    if not isinstance(found, str) or not found.strip():
        message = f"the token has no role in its claim {claim}"
        raise AuthenticationFailedError(message)
    return found


def time_of(claims: Mapping[str, Any], name: str) -> float | None:
    """Return the time in a claim, None if it is absent; raises AuthenticationFailedError if it is no time."""
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        message = f"the claim {name} of the token is not a time"
        raise AuthenticationFailedError(message)
    return float(found)
