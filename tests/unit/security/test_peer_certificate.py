from __future__ import annotations

import ssl

from magnetar.security.peer_certificate import PeerCertificate, parse_peer_certificate, peer_certificate


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


class Unreadable:
    """A connection whose certificate OpenSSL has verified and cannot decode."""

    def get_extra_info(self, _name: str) -> Unreadable:
        return self

    def getpeercert(self) -> None:
        raise ssl.SSLError(0, "unknown error")


def test_a_certificate_that_cannot_be_read_names_nobody() -> None:
    found = peer_certificate(Unreadable())  # type: ignore[arg-type]
    assert found is not None
    assert (found.common_name, found.expires_at) == ("", 0.0)
