"""The data source of Spark, the pipeline and the jobs use an Apache Pulsar with TLS and tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pulsar
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from magnetar.base.errors import RequestError, ServerError
from magnetar.client.client import PulsarClient
from magnetar.client.options import ClientOptions
from magnetar.security.client_conf import read_client_conf
from tests.kit.child import LOOPBACK, ChildProcess, free_ports
from tests.kit.clusters import MAGNETAR, UP_TIMEOUT_S, LocalClusters
from tests.kit.messages import connect, numbered, publish, read_log
from tests.kit.processes import find
from tests.kit.pulsar import PulsarStandalone
from tests.kit.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

KEY = b"a secret of at least 32 bytes, for this test"
PACKAGE = "org.apache.pulsar.client.impl.auth"
REFRESH_S = 1
COMMAND_TIMEOUT_S = 180.0


def token(expires_in_s: float = 3600) -> str:
    """Return a token of the superuser (RFC 7519, HS256)."""

    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    claims = {"sub": "admin", "exp": int(time.time() + expires_in_s)}
    signed = ".".join(part(json.dumps(each).encode()) for each in ({"alg": "HS256"}, claims))
    return f"{signed}.{part(hmac.digest(KEY, signed.encode(), hashlib.sha256))}"


def pkcs8(pem: bytes) -> bytes:
    """Return a private key in the only format that Apache Pulsar reads (RFC 5208)."""
    key = load_pem_private_key(pem, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass
class Secured:
    """A secured cluster, and the options for it."""

    apache: PulsarStandalone
    client: pulsar.Client
    urls: dict[str, str]
    conf: Path
    token: Path


@pytest.fixture(scope="module")
def secured(peer: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, server = trustme.CA(), directory / "server.pem"
    issued = authority.issue_cert(LOOPBACK)
    key, trusted = directory / "server.key", directory / "ca.pem"
    issued.cert_chain_pems[0].write_to_path(server)
    key.write_bytes(pkcs8(issued.private_key_pem.bytes()))
    authority.cert_pem.write_to_path(trusted)
    binary, web = free_ports(2)
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "authenticationRefreshCheckSeconds": REFRESH_S,
        "authorizationEnabled": "true",
        "superUserRoles": "admin",
        "tokenSecretKey": f"data:;base64,{base64.b64encode(KEY).decode()}",
        "brokerClientAuthenticationPlugin": f"{PACKAGE}.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{token()}",
        "brokerServicePortTls": binary,
        "webServicePortTls": web,
        "tlsCertificateFilePath": server,
        "tlsKeyFilePath": key,
    }
    conf, held = directory / "client.conf", directory / "token"
    held.write_text(token())
    conf.write_text(
        f"authPlugin={PACKAGE}.AuthenticationToken\nauthParams={held.as_uri()}\ntlsTrustCertsFilePath={trusted}\n"
    )
    apache = PulsarStandalone(directory / "apache", "apache", settings)
    apache.rest.authorize(token())
    with apache:
        apache.rest.post("namespaces/public/default/deduplication", body=True)
        client = connect(apache.service_url, authentication=pulsar.AuthenticationToken(token()))
        urls = {"service.url": f"pulsar+ssl://{LOOPBACK}:{binary}", "admin.url": f"https://{LOOPBACK}:{web}"}
        yield Secured(apache, client, urls, conf, held)
        client.close()


def test_reads_and_writes_use_the_credentials_of_client_conf(
    spark: SparkSession, secured: Secured, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, copy = "persistent://public/default/orders", "persistent://public/default/copy"
    secured.client.subscribe(copy, "keeps the log").close()
    secured.client.subscribe(topic, "keeps the log").close()
    publish(secured.client, topic, numbered(100))
    options = {**secured.urls, "client.conf": str(secured.conf)}
    frame = spark.read.format("magnetar").options(**options, topic=topic).load()
    frame.select("value", "__key").write.format("magnetar").options(**options, topic=copy).mode("append").save()
    assert sorted(each.data() for each in read_log(secured.client, copy)) == sorted(numbered(100))
    capsys.readouterr()
    frame.explain(extended=True)
    plan = capsys.readouterr().out
    assert "magnetar" in plan
    assert secured.token.read_text() not in plan


def test_credentials_are_required_and_are_no_options(spark: SparkSession, secured: Secured) -> None:
    topic = "persistent://public/default/orders"
    reader = spark.read.format("magnetar").options(**secured.urls, topic=topic)
    with pytest.raises(Exception, match="certificate verify failed"):
        reader.load().count()
    with pytest.raises(Exception, match=r"option authparams: credentials are no options.*\n.*client\.conf"):
        reader.option("authParams", "token:abc").load().count()


def test_the_pipeline_uses_the_credentials_of_each_cluster(secured: Secured, tmp_path: Path) -> None:
    namespace, one = "interop/secured", b"of ewr"
    topic = f"persistent://{namespace}/t"
    with LocalClusters(tmp_path, ("ewr",)) as clusters:
        record = {"serviceUrlTls": secured.urls["admin.url"], "brokerServiceUrlTls": secured.urls["service.url"]}
        clusters.rest("ewr").ensure("clusters/apache", record)
        for rest in (clusters.rest("ewr"), secured.apache.rest):
            rest.ensure("clusters/ewr", {"serviceUrl": clusters.members["ewr"].admin_url})
            rest.ensure("tenants/interop", {"adminRoles": [], "allowedClusters": ["ewr", "apache"]})
            rest.ensure(f"namespaces/{namespace}", {})
        clusters.rest("ewr").post(f"namespaces/{namespace}/replication", ["apache", "ewr"])
        urls = f"ewr={clusters.members['ewr'].admin_url},apache={secured.urls['admin.url']}"
        command = [*MAGNETAR, "pipeline", "replicate", "--clusters", urls, "--client-conf", f"apache={secured.conf}"]
        pipeline = ChildProcess(command, tmp_path, "pipeline")
        try:
            logs = {"ewr": clusters.client("ewr"), "apache": secured.client}
            for client in logs.values():
                client.subscribe(topic, "keeps the log").close()
            publish(logs["ewr"], topic, [one])
            publish(logs["apache"], topic, [two := b"of apache"])
            for name, client in logs.items():
                has_both = partial(_has, client, topic, {one, two})
                wait_until(has_both, UP_TIMEOUT_S, what=f"both messages in {name}", interval_s=0.5)
            assert not find(pipeline.pid, secured.token.read_text()), "arguments of processes have no secrets"
        finally:
            pipeline.stop()
        assert secured.token.read_text() not in pipeline.output.read_text()


def _has(client: pulsar.Client, topic: str, wanted: set[bytes]) -> bool:
    return {each.data() for each in read_log(client, topic)} == wanted


def test_jobs_use_the_credentials(secured: Secured, tmp_path: Path) -> None:
    topic, copy = "persistent://public/default/archived", "persistent://public/default/restored"
    for each in (topic, copy):
        secured.client.subscribe(each, "keeps the log").close()
    publish(secured.client, topic, numbered(10))
    cluster = ("--cluster", f"apache={secured.urls['admin.url']}", "--directory", str(tmp_path / "archive"))
    conf = ("--client-conf", str(secured.conf))
    refused = _run("archive", *cluster, "--topics", topic)
    assert "certificate verify failed" in refused.stderr
    for arguments in (("archive", "--topics", topic), ("restore", "--to", copy)):
        done = _run(*arguments, *cluster, *conf)
        assert done.returncode == 0, done.stderr
    assert [each.data() for each in read_log(secured.client, copy)] == numbered(10)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*MAGNETAR, "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S)


def use(secured: Secured, conf: Path, what: Callable[[PulsarClient], Awaitable[None]]) -> None:
    """Do something with a client that has the credentials in ``conf``."""

    async def run() -> None:
        options = ClientOptions(credentials=read_client_conf(str(conf)).credentials)
        try:
            async with PulsarClient(secured.urls["service.url"], options) as client:
                await what(client)
        finally:
            await asyncio.sleep(0.2)  # asyncio closes the sockets of TLS after the answer of the broker

    asyncio.run(run())


def test_a_connection_outlives_its_token(secured: Secured) -> None:
    topic, lifetime_s = "persistent://public/default/long", 3

    async def publish_later(client: PulsarClient) -> None:
        producer = await client.create_producer(topic, "p")
        owner = await client.owner(topic)
        secured.token.write_text(token())
        await asyncio.sleep(lifetime_s + 3 * REFRESH_S)
        await producer.send(b"\x00\x00\x00\x00")
        assert owner.failure is None

    kept = secured.token.read_text()
    secured.token.write_text(token(lifetime_s))
    try:
        use(secured, secured.conf, publish_later)
    finally:
        secured.token.write_text(kept)


def test_an_expired_token_is_refused(secured: Secured, tmp_path: Path) -> None:
    expired = tmp_path / "token"
    expired.write_text(token(-10))
    conf = tmp_path / "client.conf"
    conf.write_text(secured.conf.read_text().replace(secured.token.as_uri(), expired.as_uri()))

    async def connect_only(client: PulsarClient) -> None:
        await client.connect()

    with pytest.raises(RequestError) as caught:
        use(secured, conf, connect_only)
    assert caught.value.code == ServerError.AuthenticationError
