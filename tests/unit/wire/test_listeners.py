"""The syntax of listeners."""

from __future__ import annotations

import pytest

from magnetar.wire.listeners import BINARY, BINARY_TLS, Endpoint, parse_endpoints


def test_endpoints_of_several_listeners() -> None:
    text = "internal:pulsar://10.0.0.1:6650, internal:http://10.0.0.1:8080,external:pulsar+ssl://[::1]:6651/,"
    found = parse_endpoints(text)
    assert found == [
        Endpoint("internal", "pulsar", "10.0.0.1", 6650),
        Endpoint("internal", "http", "10.0.0.1", 8080),
        Endpoint("external", "pulsar+ssl", "::1", 6651),
    ]
    assert [each.url for each in found] == [
        "pulsar://10.0.0.1:6650",
        "http://10.0.0.1:8080",
        "pulsar+ssl://[::1]:6651",
    ]
    assert parse_endpoints("") == []
    assert parse_endpoints("a:pulsar://b:0", port_min=0) == [Endpoint("a", "pulsar", "b", 0)]


@pytest.mark.parametrize(
    "text",
    [
        "internal",
        "pulsar://a:1",
        ":pulsar://a:1",
        "a:pulsar://b",
        "a:pulsar://b:x",
        "a:pulsar://:1",
        "a:pulsar://[::1:1",
        "a:ftp://b:1",
        "a:http://b:1",
        "a:pulsar://b:1/x",
        "a:pulsar://u@b:1",
    ],
)
def test_a_wrong_endpoint_is_named(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not of the form name:scheme://host:port with the scheme pulsar or pulsar"
    ) as raised:
        parse_endpoints(f"internal:pulsar://ok:1,{text}", (BINARY, BINARY_TLS))
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(("text", "problem"), [("a:pulsar://b:0", "between 1"), ("a:pulsar://b:65536", "form")])
def test_a_port_is_in_its_bounds(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_endpoints(text)
