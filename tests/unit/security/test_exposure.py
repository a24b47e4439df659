from __future__ import annotations

import pytest

from magnetar.security.exposure import (
    Finding,
    ListeningPort,
    Risk,
    file_of,
    is_loopback,
    reachable,
    readable_secrets,
    unauthenticated,
)
from tests.kit.open_directory import open_directory


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("[::1]", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("broker.localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("broker.ewr.example", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


LOCAL = ListeningPort("brokerServicePort", 6650, ("127.0.0.1", "::1"))
BOTH = ListeningPort("webServicePort", 8080, ("127.0.0.1", "192.168.1.7"))
EVERYWHERE = ListeningPort("brokerServicePortTls", 6651, ("0.0.0.0", "::"))
CLOSED = ListeningPort("webServicePortTls", 8443, ("0.0.0.0",), requires_certificate=True)


def test_a_port_is_reachable_if_one_of_its_addresses_is() -> None:
    assert reachable([LOCAL, BOTH, EVERYWHERE, CLOSED]) == [BOTH, EVERYWHERE]
    assert reachable([LOCAL], "localhost") == []


def test_an_advertised_address_means_that_clients_come_through_a_forwarder() -> None:
    assert reachable([LOCAL, CLOSED], "broker.ewr.example") == [LOCAL]


def test_a_finding_names_the_port_its_addresses_and_the_remedy() -> None:
    (found,) = unauthenticated([EVERYWHERE], "each client may do everything", "set authenticationEnabled=true")
    assert found.risk is Risk.NO_AUTHENTICATION
    assert str(found) == (
        "brokerServicePortTls 6651 on 0.0.0.0, :: is open to other machines, and each client may do everything; "
        "set authenticationEnabled=true"
    )


def test_secrets_that_everybody_can_read_are_found() -> None:
    with open_directory() as outer:
        directory = outer / "keys"
        directory.mkdir(mode=0o755)
        key, link = directory / "broker.key", outer / "link.key"
        key.write_text("secret")
        link.symlink_to(key)
        key.chmod(0o640)
        files = [("tlsKeyFilePath", str(key)), ("tokenSecretKey", str(outer / "absent")), ("x", "data:;base64,AA\0")]
        assert readable_secrets(files) == []
        key.chmod(0o644)
        expected = f"tlsKeyFilePath: each user of this machine can read {key}"
        assert readable_secrets(files) == [Finding(Risk.READABLE_SECRET, expected, f"chmod o-rwx {key}")]
        assert len(readable_secrets([("tlsKeyFilePath", str(link))])) == 1
        directory.chmod(0o750)  # nobody else gets to the file
        assert readable_secrets(files) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [("file:///etc/a%20b.key", "/etc/a b.key"), ("data:;base64,AAAA", ""), ("token:abc", ""), ("", "")],
)
def test_the_file_of_a_value(value: str, expected: str) -> None:
    assert file_of(value) == expected
