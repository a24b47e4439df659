from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import ConfigurationError
from magnetar.base.real import SystemClock
from magnetar.broker.first_start import NAMESPACE, check_name, register_cluster, update_addresses
from magnetar.metadata.memory import MemoryMetadataStore
from magnetar.metadata.policies import ClusterData
from magnetar.metadata.resources import Resources

FIRST = ClusterData(serviceUrl="http://lone:8080", brokerServiceUrl="pulsar://lone:6650")
SECOND = ClusterData(serviceUrl="http://lone:8081", brokerServiceUrl="pulsar://lone:6651")
PROXY = ClusterData(serviceUrl="http://proxy:8080", brokerServiceUrl="pulsar://proxy:6650")


def start(resources: Resources, data: ClusterData) -> tuple[bool, bool]:
    async def begin() -> tuple[bool, bool]:
        return await register_cluster(resources, "lone", data), await update_addresses(resources, "lone", data)

    return asyncio.run(begin())


def empty() -> Resources:
    return Resources.over(MemoryMetadataStore(SystemClock()))


def test_the_first_start_registers_the_cluster_and_creates_the_namespace() -> None:
    resources = empty()
    assert start(resources, FIRST) == (True, False)
    assert resources.clusters.get("lone") == FIRST
    assert resources.namespaces.exists(NAMESPACE)


def test_a_start_with_other_addresses_registers_them() -> None:
    resources = empty()
    start(resources, FIRST)
    assert start(resources, SECOND) == (False, True)
    assert resources.clusters.get("lone") == SECOND
    assert start(resources, SECOND) == (False, False)
    assert start(resources, FIRST) == (False, True)
    assert resources.clusters.get("lone") == FIRST


def test_addresses_of_an_operator_stay() -> None:
    resources = empty()
    start(resources, FIRST)
    resources.clusters.update("lone", lambda _: PROXY)
    assert start(resources, SECOND) == (False, False)
    assert resources.clusters.get("lone") == PROXY


def test_fields_that_an_operator_added_stay() -> None:
    resources = empty()
    start(resources, FIRST)
    resources.clusters.update("lone", lambda data: data.model_copy(update={"peerClusterNames": ["other"]}))
    assert start(resources, SECOND) == (False, False)


def test_addresses_that_were_registered_before_the_broker_kept_a_copy_are_followed_from_then_on() -> None:
    resources = empty()
    resources.clusters.create("lone", FIRST)
    assert start(resources, FIRST) == (False, False)
    assert start(resources, SECOND) == (False, True)


def test_an_update_that_was_interrupted_is_completed() -> None:
    resources = empty()
    start(resources, FIRST)
    resources.clusters.update("lone", lambda _: SECOND)  # the copy was not updated
    assert start(resources, SECOND) == (False, False)
    assert start(resources, FIRST) == (False, True)


def test_a_cluster_that_is_not_registered_is_left_alone() -> None:
    resources = empty()
    resources.clusters.create("other", FIRST)
    assert start(resources, SECOND) == (False, False)
    assert not resources.clusters.exists("lone")


def test_the_data_of_another_cluster_are_refused() -> None:
    resources = empty()
    check_name(resources, "lone")
    start(resources, FIRST)
    resources.clusters.create("other", SECOND)
    check_name(resources, "lone")
    with pytest.raises(ConfigurationError, match="the data directory is that of cluster lone, and"):
        check_name(resources, "other")
