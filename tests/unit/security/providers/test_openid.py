"""Tokens of issuers that publish their keys."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from magnetar.base.errors import AuthenticationFailedError, AuthenticationFailure
from magnetar.security.providers.issuers import RETRY_S, CacheOptions, IssuerKeys, keys_url, parse_keys
from magnetar.security.providers.openid import OpenIdOptions, OpenIdProvider
from magnetar.security.providers.proof import Proof

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from magnetar.security.principal import Principal

ISSUER = "https://issuer.example/realm"
NOW = 1_000_000.0
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("one", "two")}
RSA = rsa.generate_private_key(65537, 2048)


def published(*names: str, **others: Any) -> dict[str, Any]:  # noqa: ANN401 - of a key
    return {
        "keys": [{**ECAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True), "kid": name, **others} for name in names]
    }


async def turn() -> None:
    """Let the loop run other tasks."""
    future = asyncio.get_running_loop().create_future()
    future.get_loop().call_soon(future.set_result, None)
    await future


class Issuer:
    """An issuer whose answers a test changes; ``asked`` counts requests for its keys."""

    def __init__(self, keys: object = None) -> None:
        self.keys = published("one") if keys is None else keys
        self.metadata: object = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        self.asked, self.is_down = 0, False

    async def __call__(self, url: str) -> bytes:
        await turn()
        if self.is_down:
            message = "down"
            raise AuthenticationFailedError(message, AuthenticationFailure.ISSUER)
        if url == f"{ISSUER}/.well-known/openid-configuration":
            return json.dumps(self.metadata).encode()
        assert url == f"{ISSUER}/keys"
        self.asked += 1
        return self.keys if isinstance(self.keys, bytes) else json.dumps(self.keys).encode()


def provider(issuer: Issuer, **options: Any) -> OpenIdProvider:  # noqa: ANN401 - of the provider
    settings = OpenIdOptions(frozenset({ISSUER}), frozenset({"pulsar", "other"}), **options)
    return OpenIdProvider(settings, IssuerKeys(issuer, CacheOptions()))


def token(key: str = "one", header: dict[str, Any] | None = None, now: float = NOW, **claims: object) -> bytes:
    given = {"iss": ISSUER, "sub": "alice", "aud": "pulsar", "iat": now, "exp": now + 60, **claims}
    given = {name: value for name, value in given.items() if value is not None}
    return jwt.encode(given, KEYS[key], "ES256", headers={"kid": key, **(header or {})}).encode()


def run(work: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - any result
    async def main() -> Any:  # noqa: ANN401
        return await work()

    return asyncio.run(main())


def authenticate(data: bytes, issuer: Issuer | None = None, now: float = NOW, **options: Any) -> Principal:  # noqa: ANN401
    found: Principal = run(lambda: provider(issuer or Issuer(), **options).authenticate(Proof("token", data), now))
    return found


def test_a_token_of_an_allowed_issuer_is_accepted_with_its_role() -> None:
    found = authenticate(token())
    assert (found.role, found.method, found.expires_at) == ("alice", "token", NOW + 60)
    assert authenticate(token(aud=["x", "other"], groups=["ops"]), role_claim="groups").role == "ops"
    assert authenticate(token(now=NOW - 61), leeway_s=2).role == "alice"


@pytest.mark.parametrize(
    "data",
    [
        token(iss="https://evil.example"),
        token(iss=None),
        token(aud="x"),
        token(aud=None),
        token(exp=None),
        token(iat=None),
        token(iat=NOW + 10),
        token(sub=None),
        token(now=NOW - 61),
        token(nbf=NOW + 10),
        token("two"),
        token("two", header={"kid": "one"}),
        jwt.encode({"iss": ISSUER, "sub": "alice"}, "", "none").encode(),
        jwt.encode({"iss": ISSUER, "sub": "alice", "aud": "pulsar"}, b"x" * 64, headers={"kid": "one"}).encode(),
        b"x",
        b"",
        b"x" * 100_000,
    ],
)
def test_other_tokens_are_refused(data: bytes) -> None:
    with pytest.raises(AuthenticationFailedError):
        authenticate(data)


def test_many_tokens_need_one_request_for_keys() -> None:
    issuer = Issuer()
    tested = provider(issuer)

    async def many() -> None:
        proofs = [Proof("token", token()) for _ in range(20)]
        await asyncio.gather(*[tested.authenticate(proof, NOW) for proof in proofs])
        await tested.authenticate(Proof("token", token(now=NOW + 3600)), NOW + 3600)

    run(many)
    assert issuer.asked == 1


def test_a_new_key_of_the_issuer_is_found() -> None:
    issuer = Issuer()
    tested = provider(issuer)

    async def rotate() -> None:
        await tested.authenticate(Proof("token", token()), NOW)
        issuer.keys = published("one", "two")
        for _ in range(10):  # tokens with unknown keys do not let the broker ask again and again
            with pytest.raises(AuthenticationFailedError):
                await tested.authenticate(Proof("token", token("two")), NOW + 10)
        assert issuer.asked == 1
        later = NOW + 301
        assert (await tested.authenticate(Proof("token", token("two", now=later)), later)).role == "alice"
        assert issuer.asked == 2

    run(rotate)


def test_keys_are_refreshed_while_they_are_used_and_expire() -> None:
    issuer = Issuer()
    tested = provider(issuer)

    async def age() -> None:
        await tested.authenticate(Proof("token", token()), NOW)
        issuer.is_down = True
        later = NOW + 20 * 3600
        await tested.authenticate(Proof("token", token(now=later)), later)
        for _ in range(5):
            await turn()
        expired = NOW + 25 * 3600
        for _ in range(2):
            with pytest.raises(AuthenticationFailedError) as raised:
                await tested.authenticate(Proof("token", token(now=expired)), expired)
            assert raised.value.kind is AuthenticationFailure.ISSUER
        issuer.is_down = False
        again = expired + RETRY_S
        await tested.authenticate(Proof("token", token(now=again)), again)
        assert issuer.asked == 2

    run(age)


def test_the_keys_of_a_limited_number_of_issuers_are_kept() -> None:
    async def fetch(url: str) -> bytes:
        issuer = url.removesuffix("/.well-known/openid-configuration")
        document = published("one") if url.endswith("/keys") else {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
        return json.dumps(document).encode()

    keys = IssuerKeys(fetch, CacheOptions(size=3))

    async def many() -> None:
        for number in range(10):
            await keys.find(f"https://{number}", "one", NOW)

    run(many)
    assert list(keys._issuers) == ["https://7", "https://8", "https://9"]


def test_only_public_keys_for_signatures_are_used() -> None:
    rs = {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rs", "alg": "RS512"}
    secret = {"kty": "oct", "k": "AAAA", "kid": "oct"}
    broken = [
        {},
        None,
        "x",
        {"kty": "EC"},
        {"kty": "RSA", "n": 7, "e": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "A"},
    ]
    document = {"keys": [*broken, secret, rs, *published("one", use="enc")["keys"], *published("two")["keys"]]}
    found = parse_keys(json.dumps(document).encode())
    assert {name: key.algorithms for name, key in found.items()} == {"rs": ("RS512",), "two": ("ES256",)}
    for data in (b"", b"[]", b"{}", b'{"keys": 7}', b"[" * 100_000):
        with pytest.raises(AuthenticationFailedError):
            parse_keys(data)


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example", "jwks_uri": f"{ISSUER}/keys"},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": "http://issuer.example/keys"},
        {"issuer": ISSUER, "jwks_uri": 7},
        [],
    ],
)
def test_other_metadata_of_an_issuer_are_refused(metadata: object) -> None:
    with pytest.raises(AuthenticationFailedError):
        keys_url(json.dumps(metadata).encode(), ISSUER, requires_https=True)
