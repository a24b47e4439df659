"""Index records are read by other threads than the event loop's, whatever loads the topic."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from magnetar.base.errors import RequestError, ServerError
from magnetar.base.real import SystemFiles
from magnetar.sim.cluster import TOPIC, Cluster
from magnetar.wire.entries.entry import build_entry
from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.kit.in_process import BrokerInProcess
from tests.kit.raw import RawConnection

if TYPE_CHECKING:
    from pathlib import Path

    from magnetar.base.real import SystemFile

TOPICS = 5
PARTITIONED = "persistent/public/default/parts"


class NotedFiles(SystemFiles):
    """The file system; notes which thread opened which file."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, str]] = []

    def open(self, path: Path) -> SystemFile:
        self.opened.append((threading.current_thread().name, path.name))
        return super().open(path)


def topic(number: int) -> str:
    return f"persistent://public/default/loaded-{number}"


def publish(raw: RawConnection, number: int) -> None:
    metadata = pb.MessageMetadata(producer_name=f"p{number}", sequence_id=0, publish_time=1)
    raw.send("SEND", build_entry(metadata, b"content"), producer_id=number, sequence_id=0)
    raw.expect("SEND_RECEIPT")


def attach(raw: RawConnection, name: str, number: int) -> None:
    """Connect a producer and a consumer, which starts with the first entry."""
    raw.request("PRODUCER", "PRODUCER_SUCCESS", topic=name, producer_id=number)
    position = pb.CommandSubscribe.Earliest
    shared = pb.CommandSubscribe.Shared
    subscription = {"subscription": "worker", "subType": shared, "initialPosition": position}
    raw.request("SUBSCRIBE", "SUCCESS", topic=name, consumer_id=number, **subscription)


@pytest.mark.parametrize("is_replicated", [False, True])
def test_no_file_is_opened_on_the_loop(tmp_path: Path, is_replicated: bool) -> None:
    with BrokerInProcess(tmp_path, SystemFiles()) as broker, RawConnection.connected(broker.service_url) as raw:
        broker.rest.put(f"{PARTITIONED}/partitions", 2)
        for number in range(TOPICS):
            attach(raw, topic(number), number)
            publish(raw, number)
        for index in range(2):
            attach(raw, f"{PARTITIONED.replace('/', '://', 1)}-partition-{index}", TOPICS + index)
            publish(raw, TOPICS + index)
        if is_replicated:
            cluster = "elsewhere"
            broker.rest.ensure(f"clusters/{cluster}", {"serviceUrl": broker.admin_url})
            broker.rest.post("tenants/public", {"adminRoles": [], "allowedClusters": ["standalone", cluster]})
            broker.rest.post("namespaces/public/default/replication", ["standalone", cluster])
    files = NotedFiles()
    with BrokerInProcess(tmp_path, files) as broker, RawConnection.connected(broker.service_url) as raw:
        before = len(files.opened)
        assert len(broker.broker.topics.loaded) == (TOPICS + 2) * is_replicated
        for number in range(TOPICS):
            attach(raw, topic(number), number)
        broker.rest.post(f"{PARTITIONED}/partitions", 3)
        if not is_replicated:  # otherwise the deletion is refused
            broker.rest.delete(f"{PARTITIONED}/partitions")
        assert len(files.opened) > before or is_replicated
    assert [file for thread, file in files.opened if thread == "broker"] == []
    assert [file for thread, file in files.opened if thread != "broker"] != []


def test_a_request_that_does_not_wait_is_refused_and_the_topic_is_loaded() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a")
    client.leave()
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    cluster.store.has_runs = False

    def ask() -> ServerError:
        with pytest.raises(RequestError) as refusal:
            cluster.topics.get(TOPIC)
        return refusal.value.code

    assert cluster.do(ask) is ServerError.ServiceNotReady
    assert TOPIC in cluster.topics.loaded
    assert cluster.loop.problems == []
