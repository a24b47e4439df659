from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from magnetar.broker.risks import find_risks, log_risks
from magnetar.broker.settings.config import BrokerConfig
from magnetar.security.exposure import ListeningPort, Risk
from tests.kit.open_directory import open_directory

PORTS = [
    ListeningPort("brokerServicePort", 6650, ("0.0.0.0",)),
    ListeningPort("webServicePortTls", 8443, ("0.0.0.0",), requires_certificate=True),
]
SECURED = {"authenticationEnabled": True, "authorizationEnabled": True, "superUserRoles": "root"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "each client may do everything"),
        ({"authenticationEnabled": True, "anonymousUserRole": "guest"}, "as the anonymousUserRole guest"),
        ({**SECURED, "anonymousUserRole": "guest", "superUserRoles": "root, guest"}, "as the anonymousUserRole guest"),
        ({"authenticationEnabled": True}, None),
        ({**SECURED, "anonymousUserRole": "guest"}, None),
    ],
)
def test_a_port_on_which_everybody_may_do_everything_is_a_risk(settings: dict[str, Any], reason: str | None) -> None:
    found = find_risks(BrokerConfig(**settings), PORTS)
    assert [finding.risk for finding in found] == ([] if reason is None else [Risk.NO_AUTHENTICATION])
    assert all(reason is not None and reason in finding.text for finding in found)
    assert not find_risks(BrokerConfig(**settings), PORTS[1:])


def test_a_port_that_is_advertised_to_another_network_is_reached_through_a_forwarder() -> None:
    ports = [ListeningPort("brokerServicePort", 6650, ("127.0.0.1",))]
    inside, outside = "inside:pulsar://127.0.0.1:6650", "outside:pulsar://broker.example:6650"
    assert not find_risks(BrokerConfig(advertisedListeners=inside), ports)
    assert find_risks(BrokerConfig(advertisedListeners=f"{inside},{outside}"), ports)


def test_a_readable_file_of_each_kind_is_a_risk_and_is_logged_without_its_content() -> None:
    names = ["tlsKeyFilePath", "brokerClientKeyFilePath", "basicAuthConf"]
    urls = ["tokenSecretKey", "brokerClientAuthenticationParameters"]
    with open_directory() as directory:
        secret = directory / "secret"
        secret.write_text("canary")
        secret.chmod(0o644)
        values = {name: str(secret) for name in names} | dict.fromkeys(urls, f"file://{secret}")
        config = BrokerConfig.model_validate({**SECURED, "webServicePortTls": 8443, **values})
        with capture_logs() as lines:
            log_risks(find_risks(config, []))
    assert sorted(line["reason"].partition(":")[0] for line in lines) == sorted(values)
    assert {(line["event"], line["remedy"]) for line in lines} == {("security_risk", f"chmod o-rwx {secret}")}
    assert "canary" not in str(lines)


def test_secrets_in_the_settings_themselves_have_no_file() -> None:
    values = {
        "tokenSecretKey": "data:;base64,AAAA",
        "basicAuthConf": "YWJj",
        "brokerClientAuthenticationParameters": "x",
    }
    assert find_risks(BrokerConfig.model_validate(values | SECURED), []) == []
