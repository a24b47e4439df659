"""The addresses of the pipeline's clusters, with some clusters unavailable."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from magnetar.admin.client import AdminClient
from magnetar.base.errors import ClusterUnreachableError, ConfigurationError
from magnetar.pipeline import addresses
from magnetar.pipeline.options import ClusterAddress

CLUSTERS = "ewr=http://ewr:1,jfk=http://jfk:1"

Records = dict[str, dict[str, Any]]


@pytest.fixture
def sent() -> dict[str, str | None]:
    """By asked cluster, the credentials of the last request."""
    return {}


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch, sent: dict[str, str | None]) -> Records:
    """By answering cluster, its records of the others."""
    found: Records = {}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host not in found:
            message = "refused"
            raise httpx.ConnectError(message)
        sent[request.url.host] = request.headers.get("Authorization")
        if request.url.host == "refusing":
            return httpx.Response(401, text="no credentials")
        record = found[request.url.host].get(request.url.path.rpartition("/")[2])
        return httpx.Response(200, json=record) if record is not None else httpx.Response(404, json={"reason": "none"})

    monkeypatch.setattr(
        "magnetar.pipeline.watch.AdminClient", partial(AdminClient, transport=httpx.MockTransport(answer))
    )
    return found


@pytest.fixture(autouse=True)
def _anonymous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULSAR_CLIENT_CONF", raising=False)


def record(url: str) -> dict[str, str]:
    return {"brokerServiceUrl": url}


def test_each_cluster_is_asked_for_itself(records: Records) -> None:
    records["ewr"] = {"ewr": record("pulsar://ewr"), "jfk": record("pulsar://outdated")}
    records["jfk"] = {"jfk": record("pulsar://jfk")}
    assert addresses.addresses(CLUSTERS) == (
        ClusterAddress("ewr", "pulsar://ewr", "http://ewr:1"),
        ClusterAddress("jfk", "pulsar://jfk", "http://jfk:1"),
    )


def test_the_url_of_an_unavailable_cluster_comes_from_others(records: Records) -> None:
    records["ewr"] = {"ewr": record("pulsar://ewr"), "jfk": record("pulsar://jfk")}
    assert [address.broker_url for address in addresses.addresses(CLUSTERS)] == ["pulsar://ewr", "pulsar://jfk"]


def test_the_name_of_a_cluster_may_have_equals_signs(records: Records) -> None:
    records["ewr"] = {"a=b": record("pulsar://ewr")}
    assert addresses.addresses("a=b=http://ewr:1") == (ClusterAddress("a=b", "pulsar://ewr", "http://ewr:1"),)


def test_a_cluster_that_is_down_and_unknown_is_named(records: Records) -> None:
    records["ewr"] = {"ewr": record("pulsar://ewr")}
    with pytest.raises(ClusterUnreachableError, match="http://jfk:1"):
        addresses.addresses(CLUSTERS)


def test_a_cluster_without_broker_url_is_named(records: Records) -> None:
    records["ewr"] = {"ewr": record("pulsar://ewr"), "jfk": record("")}
    records["jfk"] = {"jfk": record("")}
    with pytest.raises(ConfigurationError, match="brokerServiceUrl of jfk"):
        addresses.addresses(CLUSTERS)


def test_each_cluster_has_its_own_credentials(
    records: Records, sent: dict[str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a=b", "others"):
        Path(f"{name}.conf").write_text(f"authParams=token:t-{name}\n")
    records.update(
        {name: {each: record(f"pulsar://{each}") for each in ("a=b", "jfk", "lga")} for name in ("ewr", "jfk", "lga")}
    )
    confs = ["a=b=a=b.conf", "./others.conf"]
    found = addresses.addresses("a=b=http://ewr:1,jfk=http://jfk:1,lga=http://lga:1", client_confs=confs)
    assert [each.client_conf for each in found] == [str(tmp_path / f"{name}.conf") for name in ("a=b", *2 * ["others"])]
    assert sent == {"ewr": "Bearer t-a=b", "jfk": "Bearer t-others", "lga": "Bearer t-others"}


def test_without_a_file_the_credentials_are_those_of_the_environment(
    records: Records, sent: dict[str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "client.conf").write_text("authParams=token:abc\n")
    monkeypatch.setenv("PULSAR_CLIENT_CONF", str(tmp_path / "client.conf"))
    records["ewr"] = {"ewr": record("pulsar://ewr")}
    assert addresses.addresses("ewr=http://ewr:1")[0].client_conf == ""
    assert sent == {"ewr": "Bearer abc"}


@pytest.mark.parametrize("given", [["x=/a"], ["ewr=/a", "ewr=/b"], ["/a", "/b"], ["ewr="], [""]])
def test_a_wrong_file_of_credentials_is_refused(given: list[str]) -> None:
    with pytest.raises(ConfigurationError, match=f"--client-conf: .*{given[-1].partition('=')[0]}"):
        addresses.client_confs_of(given, ["ewr", "jfk"])


def test_the_url_for_tls_belongs_to_an_admin_url_of_tls(records: Records) -> None:
    both = record("pulsar://ewr") | {"brokerServiceUrlTls": "pulsar+ssl://ewr"}
    records["ewr"] = {"ewr": both, "jfk": record("pulsar://jfk")}
    assert addresses.addresses("ewr=https://ewr:1")[0].broker_url == "pulsar+ssl://ewr"
    with pytest.raises(ConfigurationError, match="no cluster knows the brokerServiceUrlTls of jfk\nhint: "):
        addresses.addresses("jfk=https://ewr:1")


def test_a_cluster_that_refuses_the_credentials_is_named(records: Records) -> None:
    records["refusing"] = {}
    with pytest.raises(ConfigurationError, match=r"^--clusters: ewr at http://refusing:1 refuses access.*\n.*-conf$"):
        addresses.addresses("ewr=http://refusing:1")


def test_another_form_is_refused(records: Records) -> None:
    assert records == {}
    with pytest.raises(ConfigurationError, match="name=http://host:port"):
        addresses.addresses("ewr")


def test_the_option_is_named(records: Records) -> None:
    with pytest.raises(ConfigurationError, match=r"^--cluster: 'ewr' is not of the form"):
        addresses.addresses("ewr", "--cluster")
    records["ewr"] = {}
    with pytest.raises(ConfigurationError, match=r"^--cluster: no cluster knows"):
        addresses.addresses("ewr=http://ewr:1", "--cluster")


def watch(records: Records) -> addresses.AddressWatch:
    records["ewr"] = {"ewr": record("pulsar://ewr"), "jfk": record("pulsar://jfk-from-ewr")}
    records["jfk"] = {"ewr": record("pulsar://ewr"), "jfk": record("pulsar://jfk")}
    found = addresses.AddressWatch(addresses.addresses(CLUSTERS))
    found.poll()
    assert found.take_moved() == []
    return found


def test_a_cluster_that_changes_its_address_has_moved(records: Records) -> None:
    watched = watch(records)
    records["jfk"]["jfk"] = record("pulsar://jfk-2")
    watched.poll()
    assert [address.broker_url for address in watched.take_moved()] == ["pulsar://jfk-2"]
    assert [address.broker_url for address in watched.clusters] == ["pulsar://ewr", "pulsar://jfk-2"]
    watched.poll()
    assert watched.take_moved() == []


def test_changed_urls_of_an_unavailable_cluster_come_from_others(records: Records) -> None:
    watched = watch(records)
    del records["jfk"]
    watched.poll()
    watched.poll()
    assert watched.take_moved() == [], "ewr always reached it by another URL"
    records["ewr"]["jfk"] = record("pulsar://jfk-2")
    watched.poll()
    assert [address.broker_url for address in watched.take_moved()] == ["pulsar://jfk-2"]
    watched.poll()
    assert watched.take_moved() == []


def test_a_record_that_is_gone_moves_nobody(records: Records) -> None:
    watched = watch(records)
    records.clear()
    watched.poll()
    assert watched.take_moved() == []
