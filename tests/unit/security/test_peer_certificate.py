from __future__ import annotations

from magnetar.security.peer_certificate import PeerCertificate, parse_peer_certificate


def test_a_verified_certificate_has_its_names_and_its_end() -> None:
    found = parse_peer_certificate(
        {
            "subject": ((("organizationName", "Example"),), (("commonName", "client"), ("commonName", "other"))),
            "subjectAltName": (("DNS", "client.example"), ("URI", "spiffe://example/client")),
            "notAfter": "Jan  1 00:00:00 2030 GMT",
        }
    )
    assert found == PeerCertificate(
        (("organizationName", "Example"), ("commonName", "client"), ("commonName", "other")),
        (("DNS", "client.example"), ("URI", "spiffe://example/client")),
        1893456000.0,
    )
    assert found.common_name == "other"
    assert parse_peer_certificate({"notAfter": "Jan  1 00:00:00 2030 GMT"}).common_name == ""
