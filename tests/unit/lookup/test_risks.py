from __future__ import annotations

from pathlib import Path

from magnetar.lookup.metrics import Metrics
from magnetar.lookup.options import LookupOptions
from magnetar.lookup.risks import find_risks
from magnetar.security.credentials import Credentials
from magnetar.security.exposure import ListeningPort, Risk
from tests.kit.open_directory import open_directory

PORTS = [ListeningPort("--port", 6650, ("0.0.0.0",)), ListeningPort("--web-port", 8080, ("127.0.0.1",))]


def test_a_service_without_credentials_that_others_can_reach_is_a_risk() -> None:
    with open_directory() as directory:
        key = directory / "lookup.key"
        key.write_text("secret")
        key.chmod(0o644)
        found = find_risks(LookupOptions(broker_urls=(), data_directory=directory, tls_key=key), PORTS)
    assert [each.risk for each in found] == [Risk.NO_AUTHENTICATION, Risk.READABLE_SECRET]
    assert found[0].text.startswith("--port 6650 on 0.0.0.0 is open")
    metrics = Metrics()
    metrics.note(found)
    values = {
        risk: metrics.registry.get_sample_value("magnetar_lookup_security_risks", {"risk": risk.value}) for risk in Risk
    }
    assert values == {Risk.NO_AUTHENTICATION: 1, Risk.READABLE_SECRET: 1}


def test_a_service_with_credentials_is_none() -> None:
    credentials = Credentials(auth_params="token:x")
    options = LookupOptions(broker_urls=(), data_directory=Path("unused"), credentials=credentials)
    assert find_risks(options, PORTS) == []
