"""The providers that the configuration names, and its errors."""

from __future__ import annotations

import asyncio
import base64

import jwt
import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.broker.authentication.building import build_service
from magnetar.broker.settings.config import BrokerConfig
from magnetar.security.providers.proof import Proof

SECRET = b"canary-of-a-secret-key-of-more-than-32-bytes"
KEY = base64.b64encode(SECRET).decode()
USERS = base64.b64encode(b"alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=").decode()
JAVA = "org.apache.pulsar.broker.authentication.AuthenticationProvider"


def config(**settings: object) -> BrokerConfig:
    return BrokerConfig.model_validate({"authenticationEnabled": True, **settings})


def test_authentication_is_off_by_default() -> None:
    assert build_service(BrokerConfig()) is None


@pytest.mark.parametrize(
    "names", [f"{JAVA}Token,{JAVA}Basic,{JAVA}Tls", "token, basic ,tls,token", "AuthenticationProviderToken,Basic,TLS"]
)
def test_providers_have_the_names_of_pulsar_and_short_ones(names: str) -> None:
    service = build_service(config(authenticationProviders=names, tokenSecretKey=KEY, basicAuthConf=USERS))
    assert service is not None
    assert sorted(service.methods) == ["basic", "tls", "token"]
    token = jwt.encode({"sub": "alice"}, SECRET, "HS256").encode()
    assert asyncio.run(service.authenticate(Proof("token", token), 0.0)).role == "alice"
    service.close()


def test_openid_connect_needs_issuers_and_audiences() -> None:
    settings = {"openIDAllowedTokenIssuers": "https://a, https://b", "openIDAllowedAudiences": "pulsar"}
    names = "org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID"
    service = build_service(config(authenticationProviders=names, **settings))
    assert service is not None
    assert service.methods == ("token",)
    service.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "authenticationEnabled needs authenticationProviders"),
        ({"authenticationProviders": "sasl"}, "sasl is not supported"),
        ({"authenticationProviders": f"{JAVA}Athenz"}, "is not supported"),
        ({"authenticationProviders": "token"}, "the configuration has neither"),
        ({"authenticationProviders": "token", "tokenSecretKey": KEY, "tokenPublicKey": KEY}, "has both"),
        ({"authenticationProviders": "token", "tokenSecretKey": "canary"}, "tokenSecretKey is not a key"),
        ({"authenticationProviders": "token", "tokenSecretKey": base64.b64encode(b"canary")}, "has 6 bytes"),
        ({"authenticationProviders": "token", "tokenPublicKey": KEY}, "tokenPublicKey is no public key"),
        (
            {"authenticationProviders": "token", "tokenSecretKey": KEY, "tokenAudienceClaim": "aud"},
            "tokenAudienceClaim needs tokenAudience",
        ),
        ({"authenticationProviders": "basic"}, "the provider basic needs basicAuthConf"),
        ({"authenticationProviders": "basic", "basicAuthConf": base64.b64encode(b"a:canary")}, "line 1 is not"),
        ({"authenticationProviders": "openid", "openIDAllowedTokenIssuers": "https://a"}, "openid needs"),
        (
            {
                "authenticationProviders": "openid",
                "openIDAllowedTokenIssuers": "http://a",
                "openIDAllowedAudiences": "x",
            },
            "http://a is not a URL with https",
        ),
        (
            {"authenticationProviders": "tls", "anonymousUserRole": "a", "proxyRoles": "b,a"},
            "anonymousUserRole must not be among the proxyRoles",
        ),
        ({"authenticationEnabled": False, "authenticateMetricsEndpoint": True}, "has no effect"),
        ({"brokerClientAuthenticationPlugin": "sasl"}, "is not supported"),
        (
            {"brokerClientAuthenticationPlugin": "basic", "brokerClientAuthenticationParameters": "canary"},
            "must have userId and password",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused_without_its_secrets(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason) as raised:
        build_service(config(**settings))
    assert "canary" not in str(raised.value)
    assert KEY not in str(raised.value)


def test_the_text_of_a_configuration_has_no_secrets() -> None:
    shown = repr(config(tokenSecretKey=KEY, basicAuthConf=USERS, brokerClientAuthenticationParameters="token:canary"))
    assert not any(secret in shown for secret in (KEY, USERS, "canary"))
