"""Keys of tokens, as Pulsar's settings and command line give them. No error contains a part of a key."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from magnetar.base.errors import ConfigurationError
from magnetar.security.files import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

FORMS: Final = "file:///path/of/the/key, data:;base64,KEY, or the key in base64"

RSA_BITS_MIN: Final = 2048
"""Minimum size of RSA keys, as in Pulsar (RFC 7518, section 3.3)."""

HMAC_BYTES_MIN: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Minimum bytes of the secret key of each algorithm (RFC 7518, section 3.2)."""

_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}

CURVES: Final[dict[str, type[ec.EllipticCurve]]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A key that verifies tokens, and the only algorithms that it may be used with."""

    key: bytes | PublicKey = field(repr=False)
    algorithms: tuple[str, ...]

    def only(self, algorithms: frozenset[str]) -> VerificationKey | None:
        """Return the key for the ``algorithms`` among its own; None if there are none."""
        common = tuple(algorithm for algorithm in self.algorithms if algorithm in algorithms)
        return VerificationKey(self.key, common) if common else None


def read_key(text: str, name: str) -> bytes:
    """Return the bytes of the key ``text``, in one of FORMS; raises ConfigurationError with ``name``."""
    scheme = text.partition(":")[0]
    if scheme == "file":
        return read_bytes(unquote(urlsplit(text).path), f"{name}: ")
    try:
        if scheme == "data":
            return _data_of_url(text)
        return base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        message = f"{name} is not a key\nhint: write {FORMS}"
        raise ConfigurationError(message) from None


def secret_key(data: bytes, name: str) -> VerificationKey:
    """Return the secret key ``data``; raises ConfigurationError if it is too short, or a key of another kind."""
    kind = _asymmetric_kind(data)
    if kind:
        message = f"{name} is a {kind} key, which must not be used as a secret\nhint: set tokenPublicKey instead"
        raise ConfigurationError(message)
    algorithms = tuple(algorithm for algorithm, size in HMAC_BYTES_MIN.items() if len(data) >= size)
    if not algorithms:
        message = (
            f"{name} has {len(data)} bytes; HS256 needs at least 32\n"
            "hint: create a key with `magnetar tokens create-secret-key`"
        )
        raise ConfigurationError(message)
    return VerificationKey(data, algorithms)


def public_key(data: bytes, algorithm: str, name: str) -> VerificationKey:
    """Return the public key ``data``, in DER or PEM, of the family of ``algorithm``; raises ConfigurationError."""
    if algorithm not in (*_RSA, *CURVES):
        message = f"tokenPublicAlg={algorithm} has no public keys\nhint: use one of {', '.join((*_RSA, *CURVES))}"
        raise ConfigurationError(message)
    key = _public_key(data)
    if key is None:
        kind = ", but a private one" if _private_key(data) is not None else ""
        message = (
            f"{name} is no public key{kind}\nhint: it must be an X.509 key of RSA or of an elliptic curve, DER or PEM"
        )
        raise ConfigurationError(message)
    found = verification_key(key)
    if found is None:
        message = (
            f"{name}: the key is too weak, or its kind is not supported\n"
            f"hint: use RSA from {RSA_BITS_MIN} bits, or the curves P-256, P-384 or P-521"
        )
        raise ConfigurationError(message)
    if algorithm not in found.algorithms and algorithm[:2] != found.algorithms[0][:2]:
        message = f"{name} is not a key for tokenPublicAlg={algorithm}, but for {', '.join(found.algorithms)}"
        raise ConfigurationError(message)
    return found


def verification_key(key: object) -> VerificationKey | None:
    """Return a public key with the algorithms that it verifies; None if it is too weak or of another kind."""
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= RSA_BITS_MIN:
        return VerificationKey(key, _RSA)
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return VerificationKey(key, (_CURVES[key.curve.name],))
    return None


def private_key(data: bytes, name: str) -> PrivateKey:
    """Return the private key ``data``, in PKCS 8 as DER or PEM; raises ConfigurationError."""
    key = _private_key(data)
    if not isinstance(key, PrivateKey) or verification_key(key.public_key()) is None:
        message = f"{name} is no private key of RSA or of an elliptic curve\nhint: it must be PKCS 8, in DER or PEM"
        raise ConfigurationError(message)
    return key


def _data_of_url(text: str) -> bytes:
    head, comma, data = text.removeprefix("data:").partition(",")
    if not comma:
        message = "no comma"
        raise ValueError(message)
    if head.endswith(";base64"):
        return base64.b64decode("".join(unquote(data).split()), validate=True)
    return unquote_to_bytes(data)


def _asymmetric_kind(data: bytes) -> str:
    """Return ``public`` or ``private`` if the bytes are such a key; otherwise nothing."""
    return "public" if _public_key(data) is not None else "private" if _private_key(data) is not None else ""


def _public_key(data: bytes) -> PublicKeyTypes | None:
    load = serialization.load_pem_public_key if _is_pem(data) else serialization.load_der_public_key
    try:
        return load(data)
    except (ValueError, UnsupportedAlgorithm):
        return None


def _private_key(data: bytes) -> PrivateKeyTypes | None:
    load = serialization.load_pem_private_key if _is_pem(data) else serialization.load_der_private_key
    try:
        return load(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _is_pem(data: bytes) -> bool:
    return data.lstrip().startswith(b"-----BEGIN")
