"""Certificates of clients that no authority of the broker has issued, or whose content is damaged."""

from __future__ import annotations

import datetime as dt
import ssl
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.hostile.credentials.mutations import replaced

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

ROLE: Final = "root"
"""The superuser, whose name all certificates have."""

_DAY: Final = dt.timedelta(days=1)

_SEQUENCE: Final = 0x30


@dataclass(frozen=True)
class Signer:
    """A certificate that may sign others."""

    key: Key
    certificate: x509.Certificate


@dataclass(frozen=True)
class Chain:
    """What a client presents."""

    kind: str
    certificates: list[bytes]
    """In DER, the client's first."""
    key: Key
    is_issued: bool = False
    """Whether an authority of the broker has issued it, with whatever content."""

    def context(self, trust: Path, directory: Path) -> ssl.SSLContext | None:
        """Return the context of a client that presents it; None if OpenSSL does not even load it."""
        path = directory / "client.pem"
        pem = b"".join(ssl.DER_cert_to_PEM_cert(each).encode() for each in self.certificates)
        path.write_bytes(pem + self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        context = ssl.create_default_context(cafile=str(trust))
        try:
            context.load_cert_chain(path)
        except ssl.SSLError:
            return None
        return context


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a key."""
    return ec.generate_private_key(ec.SECP256R1())


def issue(
    signer: Signer | None,
    key: Key,
    *,
    subject: x509.Name | None = None,
    issuer: x509.Name | None = None,
    is_authority: bool | None = None,
    path_length: int | None = None,
    begins: float = -1,
    ends: float = 1,
    extensions: tuple[tuple[x509.ExtensionType, bool], ...] = (),
) -> Signer:
    """Return a certificate of ``signer``, None: of itself. Times are days from now."""
    name = common_name(ROLE) if subject is None else subject
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or (signer.certificate.subject if signer is not None else name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins * _DAY)
        .not_valid_after(now + ends * _DAY)
    )
    if is_authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(is_authority, path_length), critical=True)
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, is_critical)
    return Signer(key, builder.sign(signer.key if signer is not None else key, hashes.SHA256()))


def common_name(*names: str) -> x509.Name:
    """Return a subject with these common names, which may be longer than allowed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each, _validate=False) for each in names])


def authority(name: str = "the authority of the broker") -> Signer:
    """Return a new authority."""
    return issue(None, new_key(), subject=common_name(name), is_authority=True)


def unissued(trusted: Signer) -> Iterator[Chain]:
    """Yield chains that the broker must refuse."""
    key, other = new_key(), authority("an attacker")
    named_so = issue(None, new_key(), subject=trusted.certificate.subject, is_authority=True)
    leaf = issue(trusted, new_key(), subject=common_name("stranger"))
    plain = issue(trusted, new_key(), subject=common_name("no authority"), is_authority=False)
    short = issue(trusted, new_key(), subject=common_name("short"), is_authority=True, path_length=0)
    below = issue(short, new_key(), subject=common_name("below"), is_authority=True)
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00")
    narrow = issue(
        trusted,
        new_key(),
        subject=common_name("narrow"),
        is_authority=True,
        extensions=((x509.NameConstraints([x509.DirectoryName(common_name("stranger"))], None), True),),
    )
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    for kind, signer, found in (
        ("issued by itself", None, issue(None, key)),
        ("issued by an attacker", other, issue(other, key)),
        ("issued by an authority of the same name", named_so, issue(named_so, key)),
        ("with the name of the authority as its issuer", None, issue(None, key, issuer=trusted.certificate.subject)),
        ("issued by a certificate of a client", leaf, issue(leaf, key)),
        ("issued by a certificate that is no authority", plain, issue(plain, key)),
        ("expired", trusted, issue(trusted, key, begins=-3, ends=-1)),
        ("not valid yet", trusted, issue(trusted, key, begins=1, ends=3)),
        ("below a path that is too long", below, issue(below, key)),
        ("for servers only", trusted, issue(trusted, key, extensions=((server, False),))),
        ("with an unknown critical extension", trusted, issue(trusted, key, extensions=((unknown, True),))),
        ("outside of the names of its authority", narrow, issue(narrow, key)),
        ("with a weak key", other, issue(other, weak)),
    ):
        above = [short.certificate] if signer is below else []
        chain = [found.certificate, *([signer.certificate] if signer is not None else []), *above]
        yield Chain(f"certificate: {kind}", [_der(each) for each in chain], found.key)
    trusted_der, mine = _der(trusted.certificate), issue(None, key)
    yield Chain("certificate: behind that of the authority", [_der(mine.certificate), trusted_der], key)
    yield Chain("certificate: a long chain", [_der(mine.certificate)] + [trusted_der] * 100, key)


def strange(trusted: Signer, rng: random.Random) -> Chain:
    """Return a certificate of the authority with a strange subject: none of them names the superuser."""
    names = rng.choice(
        (
            ("",),
            (" ",),
            ("root\0",),
            ("root\0.example.com",),
            ("\0root",),
            ("stranger", " root"),
            ("Root",),
            ("röot",),
            ("root" * 2000,),
            ("*",),
            ("root,CN=root",),
            ("root\n",),
            (),
            ("root", "stranger"),
            tuple(f"n{number}" for number in range(500)),
        )
    )
    key = new_key()
    found = issue(trusted, key, subject=common_name(*names))
    return Chain("certificate: a strange subject", [_der(found.certificate)], key, is_issued=True)


def damaged(trusted: Signer, rng: random.Random) -> Chain:
    """Return a certificate of the authority that was damaged afterwards."""
    key = new_key()
    found = _der(issue(trusted, key, subject=common_name("stranger")).certificate)
    return Chain("certificate: damaged", [replaced(found, rng)], key)


def damaged_and_signed(trusted: Signer, rng: random.Random) -> Chain:
    """Return a certificate that was damaged before the authority signed it."""
    key = new_key()
    found = issue(trusted, key, subject=common_name("stranger")).certificate
    content = replaced(found.tbs_certificate_bytes, rng)
    assert isinstance(trusted.key, ec.EllipticCurvePrivateKey)
    signature = b"\0" + trusted.key.sign(content, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")  # ecdsa-with-SHA256
    whole = _element(_SEQUENCE, content + algorithm + _element(0x03, signature))
    return Chain("certificate: damaged, then signed", [whole], key, is_issued=True)


def _element(tag: int, content: bytes) -> bytes:
    """Return an element of DER."""
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
