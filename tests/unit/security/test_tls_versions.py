from __future__ import annotations

import ssl

import pytest

from magnetar.security.tls_versions import SUITES_OF_1_3, Versions, parse_versions

V2, V3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
ALL_OF_1_3 = ",".join(sorted(SUITES_OF_1_3))
STANDARD = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


@pytest.mark.parametrize(
    ("protocols", "ciphers", "expected"),
    [
        ("", "", Versions(V2, V3)),
        ("TLSv1.3", "", Versions(V3, V3)),
        ("TLSv1.2", "", Versions(V2, V2)),
        ("TLSv1.3, TLSv1.2", "", Versions(V2, V3)),
        ("", STANDARD, Versions(V2, V2, "ECDHE-RSA-AES256-GCM-SHA384")),
        ("", f"{STANDARD},{ALL_OF_1_3}", Versions(V2, V3, "ECDHE-RSA-AES256-GCM-SHA384")),
        ("", ALL_OF_1_3, Versions(V3, V3)),
        ("TLSv1.2", f"{STANDARD},{ALL_OF_1_3}", Versions(V2, V2, "ECDHE-RSA-AES256-GCM-SHA384")),
        (
            "",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_RSA_WITH_AES_128_CBC_SHA256,AES128-GCM-SHA256",
            Versions(V2, V2, "ECDHE-ECDSA-CHACHA20-POLY1305:AES128-SHA256:AES128-GCM-SHA256"),
        ),
    ],
)
def test_pulsars_lists_become_versions_and_suites_of_openssl(protocols: str, ciphers: str, expected: Versions) -> None:
    found = parse_versions(protocols, ciphers)
    assert found == expected
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.apply(context)
    of_1_2 = {each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"}
    assert not expected.ciphers or of_1_2 == set(expected.ciphers.split(":"))


@pytest.mark.parametrize(
    ("protocols", "ciphers", "problem"),
    [
        ("TLSv1.1", "", "'TLSv1.1' is not supported: use TLSv1.2 and TLSv1.3"),
        ("", "HIGH", "'HIGH' is not a supported cipher suite"),
        ("", "TLS_RSA_WITH_RC4_128_SHA", "'TLS_RSA_WITH_RC4_128_SHA' is not a supported"),
        ("", "TLS_AES_256_GCM_SHA384", "can only be allowed together: add TLS_AES_128_GCM_SHA256, TLS_CHACHA20"),
        ("TLSv1.3", STANDARD, "no cipher suite belongs to a version in TLSv1.3"),
    ],
)
def test_lists_that_cannot_be_honoured_are_refused(protocols: str, ciphers: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_versions(protocols, ciphers)
