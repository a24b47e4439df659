"""Versions and cipher suites of TLS, from Pulsar's settings for them."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from functools import cache
from typing import Final

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""The supported versions by their names in Java."""

SUITES_OF_1_3: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""The cipher suites of TLS 1.3. Python offers all of them or none."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions and cipher suites that a connection may use."""

    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ciphers: str = ""
    """Suites of TLS 1.2 by OpenSSL's names, separated by colons; empty: OpenSSL's choice."""

    def apply(self, context: ssl.SSLContext) -> None:
        """Restrict a context."""
        context.minimum_version, context.maximum_version = self.minimum, self.maximum
        if self.ciphers:
            context.set_ciphers(self.ciphers)


def parse_versions(protocols: str, ciphers: str) -> Versions:
    """Return the meaning of two settings, each a list with commas; empty lists mean all supported values.

    Raises ValueError for an unknown or unsupported name, and if no version remains.
    """
    names = _words(protocols) or list(VERSIONS)
    for name in names:
        if name not in VERSIONS:
            message = f"{name!r} is not supported: use {' and '.join(VERSIONS)}"
            raise ValueError(message)
    suites = _words(ciphers)
    of_1_3 = SUITES_OF_1_3.intersection(suites)
    of_1_2 = [_openssl_name(suite) for suite in suites if suite not in SUITES_OF_1_3]
    if of_1_3 and of_1_3 != SUITES_OF_1_3:
        missing = ", ".join(sorted(SUITES_OF_1_3 - of_1_3))
        message = f"the cipher suites of TLS 1.3 can only be allowed together: add {missing}, or name none of them"
        raise ValueError(message)
    allowed = [VERSIONS[name] for name in names if not suites or (of_1_3 if name == "TLSv1.3" else of_1_2)]
    if not allowed:
        message = f"no cipher suite belongs to a version in {','.join(names)}"
        raise ValueError(message)
    return Versions(min(allowed), max(allowed), ":".join(of_1_2))


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,:]+", text) if word]


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2, which may be given by its standard name."""
    name = suite
    if suite.startswith("TLS_"):
        name = suite.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES").replace("_", "-")
        name = name.removeprefix("RSA-").replace("-CBC-", "-").replace("POLY1305-SHA256", "POLY1305")
    if name not in _known_suites():
        message = f"{suite!r} is not a supported cipher suite of TLS 1.2, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        raise ValueError(message)
    return name


@cache
def _known_suites() -> frozenset[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT")
    return frozenset(str(found["name"]) for found in context.get_ciphers())
