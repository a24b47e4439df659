"""The settings of listeners: their addresses, and their contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.listeners import advertised, internal, problems
from magnetar.metadata.policies import ClusterData
from tests.unit.broker.settings.test_loading import loaded, refusal

if TYPE_CHECKING:
    from pathlib import Path

BOTH = "private:pulsar://10.0.0.1:6650,public:pulsar+ssl://broker.example:6651,private:http://10.0.0.1:8080"


def test_each_listener_has_its_addresses() -> None:
    config = BrokerConfig(advertisedListeners=BOTH)
    private = ClusterData(brokerServiceUrl="pulsar://10.0.0.1:6650", serviceUrl="http://10.0.0.1:8080")
    public = ClusterData(brokerServiceUrlTls="pulsar+ssl://broker.example:6651")
    assert advertised(config) == {"private": private, "public": public}
    assert internal(config) == private, "the first one"
    assert internal(BrokerConfig(advertisedListeners=BOTH, internalListenerName="public")) == public
    assert internal(BrokerConfig()) == ClusterData()


@pytest.mark.parametrize(
    ("settings", "setting", "problem"),
    [
        ({"advertisedListeners": "x"}, "advertisedListeners", "'x' is not of the form"),
        ({"advertisedListeners": "a:pulsar://b:1,a:pulsar://c:1"}, "advertisedListeners", "one address for each"),
        ({"advertisedListeners": "a:pulsar://b:1,c:pulsar://b:1"}, "advertisedListeners", "have the same address b:1"),
        ({"advertisedListeners": BOTH, "internalListenerName": "x"}, "internalListenerName", "has no listener x"),
        ({"internalListenerName": "x"}, "internalListenerName", "has no listener x"),
        ({"advertisedListeners": BOTH, "bindAddresses": "x"}, "bindAddresses", "'x' is not of the form"),
        ({"advertisedListeners": BOTH, "bindAddresses": "x:pulsar://b:1"}, "bindAddresses", "has no listener x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_contradictions_are_refused(settings: dict[str, str], setting: str, problem: str, tmp_path: Path) -> None:
    ((name, found),) = problems(BrokerConfig(**settings))
    assert (name, problem in found) == (setting, True), found
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    assert any(setting in line and problem in line for line in refusal(tmp_path, text))


def test_a_bound_address_with_tls_needs_a_certificate(tmp_path: Path) -> None:
    text = f"advertisedListeners={BOTH}\nbindAddresses=public:pulsar+ssl://0.0.0.0:6651\n"
    assert any("tlsCertificateFilePath" in line for line in refusal(tmp_path, text))
    assert loaded(tmp_path, text.replace("+ssl", "")).config.bindAddresses == "public:pulsar://0.0.0.0:6651"
