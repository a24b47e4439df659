"""Tokens that prove nothing: forged, damaged, or signed with claims that state no role at present."""

from __future__ import annotations

import base64
import hmac
import json
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.hostile.credentials.mutations import mutated

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ROLE: Final = "root"
"""The superuser, whose role all tokens claim."""

DEPTH: Final = 20_000
"""Levels of nested JSON."""


def encoded(data: bytes) -> bytes:
    """Return data in base64url, as in a token."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def decoded(text: bytes) -> bytes:
    """Return the data of base64url."""
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))


@dataclass(frozen=True)
class Keys:
    """The key of the broker, with which the test alone signs, and that of an attacker."""

    broker: rsa.RSAPrivateKey
    attacker: rsa.RSAPrivateKey

    @classmethod
    def generated(cls) -> Keys:
        """Return new keys."""
        return cls(*(rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)))

    @cached_property
    def public(self) -> list[bytes]:
        """The public key of the broker, which the attacker knows, in all forms."""
        key = self.broker.public_key()
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return [pem, pem.strip(), der, base64.b64encode(der), key.public_bytes(Encoding.PEM, PublicFormat.PKCS1)]

    @cached_property
    def good(self) -> bytes:
        """A token that the broker accepts."""
        return self.signed({"sub": ROLE})

    def signed(self, claims: object, header: dict[str, Any] | None = None) -> bytes:
        """Return a token with the signature of the broker's key."""
        head = encoded(json.dumps({"alg": "RS256", "typ": "JWT", **(header or {})}).encode())
        return self._sign(head, encoded(json.dumps(claims).encode()), self.broker)

    def forged(self, header: dict[str, Any], claims: object) -> bytes:
        """Return a token with the signature of the attacker's key."""
        return self._sign(encoded(json.dumps(header).encode()), encoded(json.dumps(claims).encode()), self.attacker)

    def is_good(self, token: bytes) -> bool:
        """Return whether a token is the good one, but for space around it, and bits of its last character.

        The latter mean nothing: 342 characters have six times as many bits, and a signature has 2,048.
        """
        parts, good = token.strip().split(b"."), self.good.split(b".")
        return (
            len(parts) == 3
            and parts[:2] == good[:2]
            and parts[2][:-1] == good[2][:-1]
            and (decoded(parts[2]) == decoded(good[2]))
        )

    @staticmethod
    def _sign(header: bytes, claims: bytes, key: rsa.RSAPrivateKey) -> bytes:
        signing = jwt.get_algorithm_by_name("RS256")
        return b".".join((header, claims, encoded(signing.sign(header + b"." + claims, key))))


def token(keys: Keys, rng: random.Random) -> tuple[str, bytes]:
    """Return the kind of an attack, and a token that must not be accepted unless ``is_good``."""
    kind = rng.choice(tuple(_KINDS))
    return f"token: {kind}", _KINDS[kind](keys, rng)


def _damaged(keys: Keys, rng: random.Random) -> bytes:
    return mutated(keys.good, rng)


def _with_other_part(keys: Keys, rng: random.Random) -> bytes:
    """Damage the data in one part, so that its base64 stays valid."""
    parts = keys.good.split(b".")
    at = rng.randrange(3)
    parts[at] = encoded(mutated(decoded(parts[at]), rng))
    return b".".join(parts)


_NONE: Final[tuple[object, ...]] = (
    "none",
    "None",
    "NONE",
    "nOnE",
    "",
    " none",
    "none ",
    None,
    0,
    False,
    [],
    {},
    ["RS256"],
    "RS256 ",
    "rs256",
)


def _without_signature(keys: Keys, rng: random.Random) -> bytes:
    header = encoded(json.dumps({"alg": rng.choice(_NONE), "typ": "JWT"}).encode())
    claims = encoded(json.dumps({"sub": ROLE}).encode())
    signature = rng.choice((b"", b"AA", keys.good.split(b".")[2], encoded(rng.randbytes(256))))
    return b".".join((header, claims, signature))


_DIGESTS: Final = {"HS256": "sha256", "HS384": "sha384", "HS512": "sha512"}


def _of_the_public_key(keys: Keys, rng: random.Random) -> bytes:
    """Use the public key as the secret of an HMAC, in the hope that the broker takes the algorithm from the token."""
    name = rng.choice(tuple(_DIGESTS))
    secret = rng.choice((*keys.public, b"", b"\0", b"secret"))
    data = (
        encoded(json.dumps({"alg": name, "typ": "JWT"}).encode()) + b"." + encoded(json.dumps({"sub": ROLE}).encode())
    )
    return data + b"." + encoded(hmac.digest(secret, data, _DIGESTS[name]))


def _of_an_own_key(keys: Keys, rng: random.Random) -> bytes:
    """Sign with another key, and offer it in the header."""
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(keys.attacker.public_key()))
    offers = (
        {"jwk": jwk},
        {"jku": "http://127.0.0.1:9/keys"},
        {"x5u": "http://127.0.0.1:9/chain"},
        {"x5c": ["MIIB"]},
        {"kid": rng.choice(("../../dev/null", "' OR 1=1 --", "\0", "x" * 5000, 5, None, ["a"]))},
        {"crit": ["exp"]},
        {"crit": "b64", "b64": False},
        {"zip": "DEF"},
        {"cty": "JWT"},
        {"typ": rng.choice((None, 5, "JWE", "at+jwt"))},
    )
    algorithm = rng.choice(("RS256", "RS512", "PS256", "ES256", "EdDSA"))
    claims: dict[str, Any] = {"sub": ROLE, "exp": time.time() + 3600}
    if rng.random() < 0.3:
        claims |= {"iss": rng.choice(("https://127.0.0.1:9/", "https://127.0.0.1:9", "", 5, None, [])), "aud": "pulsar"}
    return keys.forged({"alg": algorithm, **rng.choice(offers)}, claims)


_NO_TIMES: Final[tuple[object, ...]] = ("soon", "1e9", True, [], {}, "", float("nan"))

_WRONG_CLAIMS: Final[tuple[object, ...]] = (
    {},
    [],
    None,
    5,
    "root",
    [{"sub": ROLE}],
    {"sub": ""},
    {"sub": "   "},
    {"sub": None},
    {"sub": 5},
    {"sub": True},
    {"sub": []},
    {"sub": [[ROLE]]},
    {"sub": [None, ROLE]},
    {"sub": {"0": ROLE}},
    {"SUB": ROLE},
    *({"sub": ROLE, name: value} for name in ("exp", "nbf") for value in _NO_TIMES),
    {"sub": ROLE, "exp": 0},
    {"sub": ROLE, "exp": -1},
    {"sub": ROLE, "exp": float("-inf")},
    {"sub": ROLE, "exp": float("inf")},
    {"sub": ROLE, "exp": 1e9},
    {"sub": ROLE, "nbf": 1e12},
    {"sub": ROLE, "nbf": float("inf")},
)


def _with_wrong_claims(keys: Keys, rng: random.Random) -> bytes:
    return keys.signed(rng.choice(_WRONG_CLAIMS))


def _with_wrong_header(keys: Keys, rng: random.Random) -> bytes:
    """Sign with the right key what must be refused nevertheless."""
    return keys.signed({"sub": ROLE}, rng.choice(({"alg": rng.choice(_NONE)}, {"crit": ["x"]}, {"alg": "RS384"})))


def _oversized(keys: Keys, rng: random.Random) -> bytes:
    fill = "x" * rng.choice((1000, 30_000, 60_000, 66_000))
    return keys.forged(
        {"alg": "RS256", rng.choice(("kid", "x")): fill}, {"sub": ROLE, "y": fill[: rng.choice((1, 9000))]}
    )


def _nested(keys: Keys, rng: random.Random) -> bytes:
    opening = rng.choice((b"[", b'{"a":', b'[{"sub":'))
    deep = opening * rng.choice((100, 1000, DEPTH // len(opening)))
    parts = keys.good.split(b".")
    parts[rng.randrange(2)] = encoded(deep)
    return b".".join(parts)


_SHAPES: Final = (
    b"",
    b".",
    b"..",
    b"...",
    b"....",
    b" ",
    b"\0",
    b"a.b.c",
    b"null",
    b"{}",
    b"\xff\xfe",
    b"=.=.=",
    b"e30.e30.e30",
)


def _shapeless(keys: Keys, rng: random.Random) -> bytes:
    good = keys.good
    return rng.choice(
        (
            *_SHAPES,
            good + b".",
            b"." + good,
            good + b"." + good,
            good.replace(b".", b" "),
            good.rpartition(b".")[0],
            good.rpartition(b".")[0] + b".",
            b"Bearer " + good,
            b'{"payload":"' + good.split(b".")[1] + b'","signature":""}',
            base64.b64encode(good),
            good.swapcase(),
            good.replace(b".", b"\0"),
        )
    )


_KINDS: Final[dict[str, Callable[[Keys, random.Random], bytes]]] = {
    "damaged": _damaged,
    "a damaged part": _with_other_part,
    "no signature": _without_signature,
    "the public key as a secret": _of_the_public_key,
    "signed with another key": _of_an_own_key,
    "signed, with wrong claims": _with_wrong_claims,
    "signed, with a wrong header": _with_wrong_header,
    "oversized": _oversized,
    "nested": _nested,
    "not a token": _shapeless,
}
