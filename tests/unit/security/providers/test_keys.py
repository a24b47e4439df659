from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from magnetar.base.errors import ConfigurationError
from magnetar.security.providers.keys import private_key, public_key, read_key, secret_key

if TYPE_CHECKING:
    from pathlib import Path

DER = serialization.Encoding.DER
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
P256 = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
CANARY = "canary-of-a-key"


def der(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(DER, SPKI)


def pkcs8(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


@pytest.mark.parametrize("form", ["{}", "data:;base64,{}", "data:application/octet-stream;base64,{}"])
def test_a_key_may_be_in_base64_or_in_a_url(form: str) -> None:
    data = bytes(range(40))
    assert read_key(form.format(base64.b64encode(data).decode()), "tokenSecretKey") == data


def test_a_key_may_be_in_a_file_whose_bytes_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a key"
    path.write_bytes(b"raw")
    assert read_key(f"file://{tmp_path}/a%20key", "tokenSecretKey") == b"raw"
    with pytest.raises(ConfigurationError, match=r"cannot read tokenSecretKey: .*missing: No such file"):
        read_key(f"file://{tmp_path}/missing", "tokenSecretKey")


@pytest.mark.parametrize("text", [CANARY, f"data:{CANARY}", f"data:;base64,{CANARY}", f"env:{CANARY}"])
def test_the_error_of_an_invalid_key_does_not_show_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match="tokenSecretKey is not a key") as raised:
        read_key(text, "tokenSecretKey")
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("size", "algorithms"), [(32, ("HS256",)), (48, ("HS256", "HS384")), (64, ("HS256", "HS384", "HS512"))]
)
def test_a_secret_key_fits_the_algorithms_of_its_size(size: int, algorithms: tuple[str, ...]) -> None:
    assert secret_key(bytes(size), "tokenSecretKey").algorithms == algorithms


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="tokenSecretKey has 31 bytes; HS256 needs at least 32"):
        secret_key(bytes(31), "tokenSecretKey")


@pytest.mark.parametrize(("data", "kind"), [(der(RSA), "public"), (pkcs8(P256), "private")], ids=["public", "private"])
def test_a_key_of_a_pair_is_never_a_secret(data: bytes, kind: str) -> None:
    with pytest.raises(ConfigurationError, match=f"is a {kind} key, which must not be used as a secret"):
        secret_key(data, "tokenSecretKey")


def test_a_public_key_verifies_the_algorithms_of_its_kind_only() -> None:
    assert public_key(der(RSA), "RS256", "tokenPublicKey").algorithms[0] == "RS256"
    pem = P256.public_key().public_bytes(serialization.Encoding.PEM, SPKI)
    assert public_key(pem, "ES384", "tokenPublicKey").algorithms == ("ES256",)


@pytest.mark.parametrize(
    ("data", "algorithm", "reason"),
    [
        (b"x" * 40, "RS256", "tokenPublicKey is no public key"),
        (pkcs8(P256), "ES256", "tokenPublicKey is no public key, but a private one"),
        (der(P256), "RS256", "is not a key for tokenPublicAlg=RS256, but for ES256"),
        (der(P256), "HS256", "tokenPublicAlg=HS256 has no public keys"),
        (der(rsa.generate_private_key(65537, 1024)), "RS256", "too weak"),
        (der(ed25519.Ed25519PrivateKey.generate()), "ES256", "its kind is not supported"),
    ],
    ids=["no key", "private", "other algorithm", "secret algorithm", "short", "other kind"],  # keys are random
)
def test_other_public_keys_are_refused(data: bytes, algorithm: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        public_key(data, algorithm, "tokenPublicKey")


def test_a_private_key_is_read() -> None:
    assert private_key(pkcs8(P256), "--private-key").key_size == 256
    with pytest.raises(ConfigurationError, match="--private-key is no private key"):
        private_key(der(P256), "--private-key")
