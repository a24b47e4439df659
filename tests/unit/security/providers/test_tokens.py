from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from magnetar.base.errors import AuthenticationFailedError
from magnetar.security.principal import Principal
from magnetar.security.providers.keys import VerificationKey, secret_key, verification_key
from magnetar.security.providers.proof import Proof
from magnetar.security.providers.tokens import TokenOptions, TokenProvider

NOW = 1_000_000.0
SECRET = bytes(range(64))
RSA = rsa.generate_private_key(65537, 2048)
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
PAIRS = {name: ec.generate_private_key(curve) for name, curve in CURVES.items()}
HS = TokenOptions(secret_key(SECRET, "tokenSecretKey"))


def role(token: str | bytes, options: TokenOptions = HS, now: float = NOW) -> Principal:
    data = token.encode() if isinstance(token, str) else token
    return asyncio.run(TokenProvider(options).authenticate(Proof("token", data), now))


def refusal(token: str | bytes, options: TokenOptions = HS, now: float = NOW) -> str:
    with pytest.raises(AuthenticationFailedError) as raised:
        role(token, options, now)
    return str(raised.value)


def signed(claims: dict[str, Any], key: Any = SECRET, algorithm: str = "HS256") -> str:  # noqa: ANN401 - any key
    return jwt.encode(claims, key, algorithm)


def public(key: object) -> VerificationKey:
    found = verification_key(key)
    assert found is not None
    return found


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_token_of_a_secret_key_has_its_subject_as_role(algorithm: str) -> None:
    assert role(signed({"sub": "alice"}, algorithm=algorithm)) == Principal("alice", "token")


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *PAIRS])
def test_a_token_of_a_private_key_is_verified_with_the_public_one(algorithm: str) -> None:
    key = PAIRS.get(algorithm, RSA)
    options = TokenOptions(public(key.public_key()))
    assert role(signed({"sub": "alice"}, key, algorithm), options).role == "alice"
    other = ec.generate_private_key(CURVES[algorithm]) if algorithm in CURVES else None
    if other is not None:
        assert "signature" in refusal(signed({"sub": "alice"}, other, algorithm), options)


def test_a_token_expires_and_may_begin_later() -> None:
    token = signed({"sub": "alice", "exp": NOW + 10, "nbf": NOW - 10})
    assert role(token).expires_at == NOW + 10
    assert refusal(token, now=NOW + 10) == "the token has expired"
    assert refusal(token, now=NOW - 11) == "the token is not valid yet"
    skewed = TokenOptions(HS.key, clock_skew_s=5)
    assert role(token, skewed, NOW + 14).expires_at == NOW + 15
    assert role(token, skewed, NOW - 14).role == "alice"
    assert refusal(token, skewed, NOW + 15) == "the token has expired"


@pytest.mark.parametrize("time", ["soon", [1], True, float("inf"), float("nan"), {}])
def test_a_time_that_is_none_is_refused(time: object) -> None:
    assert refusal(signed({"sub": "alice", "x": 1}, SECRET).encode()[:0]) == "the token is empty or too large"
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256"}).encode()).rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps({"sub": "alice", "exp": time}).encode()).rstrip(b"=")
    key = jwt.get_algorithm_by_name("HS256").prepare_key(SECRET)
    mac = base64.urlsafe_b64encode(jwt.get_algorithm_by_name("HS256").sign(header + b"." + body, key)).rstrip(b"=")
    assert "the claim exp of the token is not a time" in refusal(header + b"." + body + b"." + mac)


def test_the_role_may_be_in_another_claim_and_in_a_list() -> None:
    options = TokenOptions(HS.key, auth_claim="roles")
    assert role(signed({"sub": "alice", "roles": ["ops", "dev"]}), options).role == "ops"
    for roles in ([], [1], "", " ", 7, None):
        assert "no role in its claim roles" in refusal(signed({"sub": "alice", "roles": roles}), options)


@pytest.mark.parametrize("audience", ["us", ["them", "us"]])
def test_the_audience_is_checked_if_its_claim_is_set(audience: object) -> None:
    options = TokenOptions(HS.key, audience_claim="aud", audience="us")
    assert role(signed({"sub": "alice", "aud": audience}), options).role == "alice"
    for other in ("them", ["them"], [], 7, [["us"]]):
        assert "audience" in refusal(signed({"sub": "alice", "aud": other}), options)
    assert "audience" in refusal(signed({"sub": "alice"}), options)
    assert role(signed({"sub": "alice", "aud": "them"})).role == "alice"


def test_an_unsigned_token_is_refused() -> None:
    assert "algorithm" in refusal(jwt.encode({"sub": "root"}, "", "none"))
    for name in ("none", "None", "NONE", ""):
        header = base64.urlsafe_b64encode(json.dumps({"alg": name}).encode()).rstrip(b"=").decode()
        rest = signed({"sub": "root"}).partition(".")[2]
        refusal(f"{header}.{rest}")
        refusal(f"{header}.{rest.partition('.')[0]}.")


def test_a_public_key_is_no_secret_of_a_forged_token() -> None:
    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    hs256 = jwt.get_algorithm_by_name("HS256")
    head, body, _ = signed({"sub": "root"}).split(".")
    mac = base64.urlsafe_b64encode(hs256.sign(f"{head}.{body}".encode(), pem)).rstrip(b"=").decode()
    assert "algorithm" in refusal(f"{head}.{body}.{mac}", TokenOptions(public(RSA.public_key())))


@pytest.mark.parametrize(("key", "mutations"), [(HS.key, 3000), (public(PAIRS["ES256"].public_key()), 500)])
def test_no_mutation_of_a_token_gives_access(key: VerificationKey, mutations: int) -> None:
    """Any other bytes are refused, with an error of one kind. A changed signature bit may mean the same bytes."""
    options, chance = TokenOptions(key), random.Random(19)
    signing = SECRET if key is HS.key else PAIRS["ES256"]
    token = signed({"sub": "alice", "exp": NOW + 10}, signing, key.algorithms[0])
    meaning = [base64.urlsafe_b64decode(part + "==") for part in token.split(".")]
    refused = 0
    for _ in range(mutations):
        changed = mutation(chance, token.encode())
        try:
            found = role_now(options, changed)
        except AuthenticationFailedError:
            refused += 1
            continue
        assert found.role == "alice"
        assert [base64.urlsafe_b64decode(part + b"==") for part in changed.split(b".")] == meaning
    assert refused > 0.95 * mutations


def test_space_around_a_token_is_ignored_and_nothing_else_that_base64_would_skip() -> None:
    token = signed({"sub": "alice"})
    for space in ("\n", "\r\n", " "):
        assert role(f"{token}{space}").role == "alice"
    for junk in ("!", "=", "==", "\0", "é", ",", " x", "\nx", "+", "/"):
        for changed in (f"{token}{junk}", f"{token[:-5]}{junk}{token[-5:]}", f"{junk}{token}"):
            refusal(changed.encode())


def role_now(options: TokenOptions, data: bytes) -> Principal:
    """Authenticate without an event loop: the provider never waits."""
    coroutine = TokenProvider(options).authenticate(Proof("token", data), NOW)
    try:
        coroutine.send(None)
    except StopIteration as end:
        found: Principal = end.value
        return found
    raise AssertionError


def mutation(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    kind = chance.randrange(6)
    place = chance.randrange(len(changed))
    match kind:
        case 0:
            changed[place] ^= 1 << chance.randrange(8)
        case 1:
            del changed[place : place + chance.randrange(1, 20)]
        case 2:
            changed[place:place] = chance.randbytes(chance.randrange(1, 20))
        case 3:
            other = chance.randrange(len(changed))
            changed[place], changed[other] = changed[other], (changed[place] + 1) % 256
        case 4:
            changed += changed[place:] + b"."
        case _:
            header = {"alg": chance.choice(["none", "HS256", "ES256", 7, None, "x" * 50]), "crit": ["x"], "b64": False}
            encoded = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=")
            changed = bytearray(encoded + b"." + data.partition(b".")[2])
    return bytes(changed)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b".", b"..", b"...", b"\xff\xfe", b"[" * 60_000, b"e30." * 1000, b"x" * 70_000, b"bnVsbA.bnVsbA.bnVsbA"),
        base64.urlsafe_b64encode(b"[" * 40_000).rstrip(b"=") + b".e30.e30",
        base64.urlsafe_b64encode(b'{"alg":' + b"9" * 9000 + b"}").rstrip(b"=") + b".e30.e30",
    ],
)
def test_bytes_that_are_no_token_are_refused(data: bytes) -> None:
    refusal(data)
