"""The options of a client."""

from __future__ import annotations

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.client.options import DEFAULT_OPTIONS, Address, address_of


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("pulsar://broker:6651", Address("broker", 6651, is_encrypted=False)),
        ("pulsar://broker", Address("broker", 6650, is_encrypted=False)),
        ("pulsar+ssl://broker", Address("broker", 6651, is_encrypted=True)),
        ("pulsar+ssl://[::1]:7", Address("::1", 7, is_encrypted=True)),
    ],
)
def test_a_url_names_host_and_port(url: str, address: Address) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize("url", ["", "broker:6650", "pulsar://", "pulsar+ssl://", "pulsar://broker:x", "http://b"])
def test_another_url_is_refused_by_name(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not a broker's URL") as caught:
        address_of(url)
    assert repr(url) in str(caught.value)


def test_clients_introduce_themselves_as_magnetar() -> None:
    assert DEFAULT_OPTIONS.client_version.startswith("Magnetar ")
