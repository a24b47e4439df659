"""Credentials of queries come from files, never from options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.spark.connecting import admin_client, pulsar_client
from magnetar.spark.read.options import ReadOptions
from magnetar.spark.write.options import WriteOptions

if TYPE_CHECKING:
    from pathlib import Path

URLS = {"service.url": "pulsar+ssl://b:6651", "admin.url": "https://b:8443", "topic": "any"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "authParams",
            "authPlugin",
            "token",
            "auth-params",
            "pulsar.client.authParams",
            "pulsar.admin.authPluginClassName",
        ),
        *("password", "tlsTrustStorePassword"),
    ],
)
def test_an_option_with_a_credential_is_refused_without_its_value(name: str) -> None:
    for kind in (ReadOptions, WriteOptions):
        with pytest.raises(ConfigurationError, match="credentials are no options") as caught:
            kind.of({**URLS, name: "s3cret"})
        assert name.lower() in str(caught.value)
        assert "s3cret" not in str(caught.value)


def test_the_file_is_that_of_the_option_or_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, of_environment = tmp_path / "a.conf", tmp_path / "b.conf"
    ours.write_text("authPlugin=a")
    of_environment.write_text("authPlugin=b")
    monkeypatch.delenv("PULSAR_CLIENT_CONF", raising=False)
    admin_client(ReadOptions.of(URLS)).close()
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(of_environment))
    for given, named in (({}, "b"), ({"client.conf": str(ours)}, "a")):
        options = ReadOptions.of({**URLS, **given})
        for connect in (admin_client, pulsar_client):
            with pytest.raises(ConfigurationError, match=f"{named}.conf: authPlugin {named} is not supported"):
                connect(options)
