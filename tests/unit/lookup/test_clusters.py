from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from magnetar.base.errors import RequestError
from magnetar.lookup.clusters import Caller, Clusters
from magnetar.lookup.knowledge import Knowledge
from magnetar.lookup.options import LookupOptions
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.routes.atlas import Atlas
from magnetar.wire.proto import pulsar_api_pb2 as pb

PLAIN, BOTH = "pulsar://ewr:1", ClusterData(brokerServiceUrl="pulsar://jfk:1", brokerServiceUrlTls="pulsar+ssl://jfk:2")
ALICE, BOB = Caller("token", b"alice"), Caller("token", b"bob")


def clusters_of(identities_max: int = 10) -> Clusters:
    knowledge = Knowledge()
    known = {"ewr": ClusterData(brokerServiceUrl=PLAIN), "jfk": BOTH}
    knowledge.learn(Atlas(cluster="ewr", version="1", routes={}, clusters=known))
    options = LookupOptions(broker_urls=(), data_directory=Path("unused"), identities_max=identities_max)
    return Clusters(knowledge, options)


def test_credentials_of_an_encrypted_client_are_passed_on_encrypted_only() -> None:
    async def test() -> None:
        clusters = clusters_of()
        encrypted, proof = Caller(is_encrypted=True), Caller("token", b"alice", is_encrypted=True)
        urls = [clusters._client("jfk", caller).url for caller in (Caller(), ALICE, encrypted, proof)]
        assert urls == ["pulsar://jfk:1", "pulsar://jfk:1", "pulsar+ssl://jfk:2", "pulsar+ssl://jfk:2"]
        assert clusters._client("ewr", encrypted).url == PLAIN
        with pytest.raises(RequestError, match="cluster ewr has no brokerServiceUrlTls"):
            clusters._client("ewr", proof)

    asyncio.run(test())


def test_connections_are_shared_by_one_identity_and_those_of_the_oldest_are_closed() -> None:
    async def test() -> None:
        clusters = clusters_of(identities_max=2)
        alice, bob = clusters._client("ewr", ALICE), clusters._client("ewr", BOB)
        assert clusters._client("ewr", ALICE) is alice is not bob
        anyone = clusters._client("ewr", Caller())
        assert clusters._client("ewr", ALICE) is alice
        assert clusters._client("ewr", BOB) is not bob
        assert bob._is_closed
        assert not alice._is_closed
        assert anyone._options.credentials.is_anonymous

    asyncio.run(test())


def test_a_cluster_that_does_not_answer_is_named() -> None:
    async def test() -> None:
        knowledge = Knowledge()
        known = {"ewr": ClusterData(brokerServiceUrl="pulsar://127.0.0.1:1")}
        knowledge.learn(Atlas(cluster="ewr", version="1", routes={}, clusters=known))
        clusters = Clusters(knowledge, LookupOptions(broker_urls=(), data_directory=Path("unused")))
        with pytest.raises(RequestError, match="cluster ewr does not answer: "):
            await clusters.ask("ewr", Caller(), pb.CommandGetTopicsOfNamespace(namespace="a/b"))

    asyncio.run(test())
