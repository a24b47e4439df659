"""New keys and tokens, as ``pulsar tokens`` makes them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from magnetar.base.errors import ConfigurationError
from magnetar.security.providers.keys import CURVES, HMAC_BYTES_MIN, RSA_BITS_MIN, secret_key, verification_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from magnetar.security.providers.keys import PrivateKey

_RSA_BITS = {"RS256": RSA_BITS_MIN, "RS384": 3072, "RS512": 4096, "PS256": RSA_BITS_MIN, "PS384": 3072, "PS512": 4096}
"""Sizes of new keys, as in Pulsar."""


def new_secret_key(algorithm: str) -> bytes:
    """Return a secret key for an algorithm; raises ConfigurationError if it has none."""
    if algorithm not in HMAC_BYTES_MIN:
        message = f"{algorithm} has no secret keys\nhint: use {', '.join(HMAC_BYTES_MIN)}, or create-key-pair"
        raise ConfigurationError(message)
    return secrets.token_bytes(HMAC_BYTES_MIN[algorithm])


def new_key_pair(algorithm: str) -> tuple[bytes, bytes]:
    """Return a private and a public key in DER; raises ConfigurationError if the algorithm has none."""
    key: PrivateKey
    if algorithm in CURVES:
        key = ec.generate_private_key(CURVES[algorithm]())
    elif algorithm in _RSA_BITS:
        key = rsa.generate_private_key(65537, _RSA_BITS[algorithm])
    else:
        message = f"{algorithm} has no key pairs\nhint: use {', '.join((*_RSA_BITS, *CURVES))}, or create-secret-key"
        raise ConfigurationError(message)
    der = serialization.Encoding.DER
    private = key.private_bytes(der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, key.public_key().public_bytes(der, serialization.PublicFormat.SubjectPublicKeyInfo)


def new_token(
    key: bytes | PrivateKey,
    subject: str,
    *,
    algorithm: str | None = None,
    expires_at: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Return a token for a role, signed with a secret or private key; ``expires_at`` is in seconds since the epoch.

    Without ``algorithm``, the strongest one of a secret key, and the first one of a private key. Raises
    ConfigurationError if the key does not fit.
    """
    if isinstance(key, bytes):
        fitting = secret_key(key, "the secret key").algorithms
        default = fitting[-1]
    else:
        found = verification_key(key.public_key())
        assert found is not None, "the key was checked when it was read"
        fitting = found.algorithms
        default = fitting[0]
    chosen = algorithm or default
    if chosen not in fitting:
        message = f"the key is not one for {chosen}, but for {', '.join(fitting)}"
        raise ConfigurationError(message)
    claims: dict[str, object] = {"sub": subject}
    if expires_at is not None:
        claims["exp"] = expires_at
    return jwt.encode(claims, key, chosen, headers=dict(headers or {}))
