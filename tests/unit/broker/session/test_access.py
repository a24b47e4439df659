"""Settings of authorization."""

from __future__ import annotations

import pytest

from magnetar.authorization.needs import REPLICATOR, SUPERUSER, Resource
from magnetar.base.errors import ConfigurationError
from magnetar.base.real import SystemClock
from magnetar.broker.session.permissions.building import access_of
from magnetar.broker.settings.config import BrokerConfig
from magnetar.broker.settings.loading import load
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.resources import Resources
from magnetar.security.principal import Principal


def resources() -> Resources:
    return Resources.over(MemoryMetadataStore(SystemClock()))


def test_without_the_setting_nothing_is_checked() -> None:
    assert access_of(BrokerConfig(), resources()) is None


def test_authorization_needs_authentication() -> None:
    with pytest.raises(ConfigurationError, match="authorizationEnabled=true needs authenticationEnabled=true\nhint: "):
        access_of(BrokerConfig(authorizationEnabled=True), resources())


def test_roles_are_lists_with_commas() -> None:
    config = BrokerConfig(
        authenticationEnabled=True,
        authorizationEnabled=True,
        superUserRoles="root, second",
        replicatorRoles="pipeline=*,a=b=jfk, a=b=lga",
    )
    access = access_of(config, resources())
    assert access is not None
    permitted = {
        (role, need.scope.value, cluster)
        for role in ("root", "second", "pipeline", "a=b", "other")
        for need, cluster in ((SUPERUSER, None), (REPLICATOR, "jfk"), (REPLICATOR, "ewr"))
        if access.refusal(need, Resource(cluster=cluster), Principal(role, "token")) is None
    }
    everything = {("superuser", None), ("replicator", "jfk"), ("replicator", "ewr")}
    assert permitted == {
        *((role, *each) for role in ("root", "second") for each in everything),
        ("pipeline", "replicator", "jfk"),
        ("pipeline", "replicator", "ewr"),
        ("a=b", "replicator", "jfk"),
    }


@pytest.mark.parametrize("text", ["pipeline", "=jfk", "pipeline=", "pipeline=a b"])
def test_a_role_without_a_cluster_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not of the form role=cluster"):
        load(None, {}, {"replicatorRoles": text})


def test_another_provider_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="authorizationProvider: dangerous to ignore"):
        load(None, {}, {"authorizationProvider": "example.Provider"})
    load(None, {}, {"authorizationProvider": "org.apache.pulsar.broker.authorization.PulsarAuthorizationProvider"})
