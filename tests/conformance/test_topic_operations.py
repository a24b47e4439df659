"""Operations of pulsar-admin on topics, with the answers of Apache Pulsar 4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.messages import connect, numbered, publish, receive_data
from tests.kit.rest import topic_path

if TYPE_CHECKING:
    import pulsar

    from tests.kit.broker import Broker


def status(broker: Broker, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Return the status and the decoded answer."""
    response = broker.rest.request(method, path, body)
    return response.status_code, response.json() if response.content else None


def examined(broker: Broker, topic: str, query: str) -> bytes:
    response = broker.rest.request("GET", f"{topic_path(topic)}/examinemessage?{query}")
    assert response.status_code == 200
    return response.content


def test_a_client_with_the_url_of_the_admin_api(broker: Broker, topic: str) -> None:
    client = connect(broker.admin_url)
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbered(3))
    assert receive_data(consumer, 3) == numbered(3)
    client.close()


def test_partitions_of_a_missing_topic(broker: Broker, topic: str) -> None:
    path = f"{topic_path(topic)}/partitions"
    assert status(broker, "GET", path) == (404, {"reason": f"Topic {topic} not found"})
    assert status(broker, "GET", f"{path}?checkAllowAutoCreation=true") == (200, {"partitions": 0, "deleted": False})
    assert status(broker, "GET", path)[0] == 404  # only a producer or consumer creates it


@pytest.mark.parametrize("partitions", [0, 2])
def test_properties_of_topics(broker: Broker, topic: str, partitions: int) -> None:
    path = topic_path(topic)
    if partitions:
        broker.rest.put(f"{path}/partitions", {"partitions": partitions, "properties": {"a": "b", "c": "d"}})
    else:
        broker.rest.put(path, {"a": "b", "c": "d"})
    assert broker.rest.get(f"{path}/properties") == {"a": "b", "c": "d"}
    broker.rest.put(f"{path}/properties", {"a": "z", "e": "f"})
    assert broker.rest.get(f"{path}/properties") == {"a": "z", "c": "d", "e": "f"}
    broker.rest.delete(f"{path}/properties?key=a")
    broker.rest.delete(f"{path}/properties?key=none")
    broker.rest.put(f"{path}/unload")
    assert broker.rest.get(f"{path}/properties") == {"c": "d", "e": "f"}


def test_clients_cannot_set_properties_of_the_broker(broker: Broker, topic: str) -> None:
    reserved = {"magnetar.lives": "{}"}
    assert status(broker, "PUT", topic_path(topic), reserved)[0] == 412
    broker.rest.put(topic_path(topic), {})
    assert status(broker, "PUT", f"{topic_path(topic)}/properties", reserved)[0] == 412
    broker.rest.delete(f"{topic_path(topic)}/properties?key=magnetar.lives")
    assert broker.rest.get(f"{topic_path(topic)}/properties") == {}


def test_properties_of_subscriptions(broker: Broker, client: pulsar.Client, topic: str) -> None:
    path = f"{topic_path(topic)}/subscription"
    third = publish(client, topic, numbered(5))[2]
    start = {"ledgerId": third.ledger_id(), "entryId": third.entry_id(), "properties": {"q": "w"}}
    broker.rest.put(f"{path}/s", start)
    assert broker.rest.get(f"{path}/s/properties") == {"q": "w"}
    broker.rest.put(f"{path}/s/properties", {"x": "y"})
    broker.rest.put(f"{topic_path(topic)}/unload")
    assert broker.rest.get(f"{path}/s/properties") == {"x": "y"}
    assert receive_data(client.subscribe(topic, "s"), 3) == numbered(5)[2:]
    missing = {"reason": f"Subscription none not found for topic {topic}"}
    assert status(broker, "PUT", f"{path}/none/properties", {}) == (404, missing)


def test_examine_messages(broker: Broker, client: pulsar.Client, topic: str) -> None:
    broker.rest.put(topic_path(topic), {})
    empty = {"reason": "Could not examine messages due to the total message is zero"}
    assert status(broker, "GET", f"{topic_path(topic)}/examinemessage") == (412, empty)
    publish(client, topic, numbered(10))
    assert examined(broker, topic, "") == b"9"
    assert examined(broker, topic, "initialPosition=earliest&messagePosition=2") == b"1"
    assert examined(broker, topic, "initialPosition=latest&messagePosition=3") == b"7"
    assert examined(broker, topic, "initialPosition=earliest&messagePosition=100") == b"9"


def test_internal_info(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    last = publish(client, topic, numbered(3))[-1]
    info = broker.rest.get(f"{topic_path(topic)}/internal-info")
    assert [each["ledgerId"] for each in info["ledgers"]] == [last.ledger_id()]
    assert set(info["cursors"]["s"]) == {"version", "cursorsLedgerId", "markDelete"}


def test_analyze_backlog(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    ids = publish(client, topic, numbered(10))
    path = f"{topic_path(topic)}/subscription/s/analyzeBacklog"
    first, fourth, last = (f"{each.ledger_id()}:{each.entry_id()}" for each in (ids[0], ids[4], ids[-1]))
    whole = broker.rest.call("POST", path)
    assert (whole["entries"], whole["messages"], whole["firstMessageId"], whole["lastMessageId"]) == (
        10,
        10,
        first,
        last,
    )
    part = broker.rest.call("POST", path, {"ledgerId": ids[4].ledger_id(), "entryId": ids[4].entry_id()})
    assert (part["entries"], part["filterAcceptedMessages"], part["firstMessageId"]) == (6, 6, fourth)


def test_expire_messages_at_a_position(broker: Broker, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s").close()
    fifth = publish(client, topic, numbered(10))[4]
    broker.rest.post(
        f"{topic_path(topic)}/subscription/s/expireMessages",
        {"ledgerId": fifth.ledger_id(), "entryId": fifth.entry_id(), "isExcluded": False},
    )
    assert broker.rest.backlog(topic, "s") == 5


def test_truncate_and_trim(broker: Broker, client: pulsar.Client, topic: str) -> None:
    path = topic_path(topic)
    broker.rest.put(f"{path}/partitions", 1)
    partition = f"{topic}-partition-0"
    for name in ("s1", "s2"):
        client.subscribe(topic, name).close()
    publish(client, topic, numbered(10))
    broker.rest.post(f"{path}/trim")
    assert broker.rest.internal_stats(partition)["numberOfEntries"] == 10
    broker.rest.delete(f"{path}/truncate")
    assert broker.rest.internal_stats(partition)["numberOfEntries"] == 0
    assert broker.rest.backlog(partition, "s1") == 0
    publish(client, topic, [b"next"])
    assert receive_data(client.subscribe(topic, "s2"), 1) == [b"next"]


def test_missing_partitions(broker: Broker, topic: str) -> None:
    path = topic_path(topic)
    assert status(broker, "POST", f"{path}/createMissedPartitions") == (
        404,
        {"reason": f"Topic {topic} does not exist"},
    )
    broker.rest.put(f"{path}/partitions", 3)
    broker.rest.delete(f"{path}-partition-1")
    broker.rest.post(f"{path}/createMissedPartitions")
    broker.rest.stats(f"{topic}-partition-1")


def test_operations_on_a_namespace(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    topics = [f"persistent://{namespace}/{name}" for name in ("a", "b", "c")]
    for each in topics:
        for name in ("s1", "s2"):
            client.subscribe(each, name).close()
        publish(client, each, numbered(4))
    path = f"namespaces/{namespace}"
    broker.rest.put(f"{path}/unload")
    broker.rest.post(f"{path}/clearBacklog/s1")
    assert [broker.rest.backlog(each, "s1") for each in topics] == [0, 0, 0]
    assert [broker.rest.backlog(each, "s2") for each in topics] == [4, 4, 4]
    bundles = [broker.rest.request("GET", f"../../lookup/v2/topic/{topic_path(each)}/bundle").text for each in topics]
    broker.rest.post(f"{path}/{bundles[0]}/clearBacklog")
    assert [broker.rest.backlog(each, "s2") for each in topics] == [
        0 if bundle == bundles[0] else 4 for bundle in bundles
    ]
    consumer = client.subscribe(topics[2], "s1")
    in_use = {"reason": "Subscription has active connected consumers"}
    assert status(broker, "POST", f"{path}/unsubscribe/s1") == (412, in_use)
    consumer.close()
    broker.rest.post(f"{path}/unsubscribe/s1")
    assert [broker.rest.get(f"{topic_path(each)}/subscriptions") for each in topics] == [["s2"]] * 3
    assert status(broker, "PUT", f"{path}/0x00000000_0xffffffff/unload")[0] == 412


def test_processes_that_never_run(broker: Broker, topic: str) -> None:
    broker.rest.put(topic_path(topic), {})
    assert broker.rest.get(f"{topic_path(topic)}/compaction") == {"status": "NOT_RUN", "lastError": ""}
    assert broker.rest.get(f"{topic_path(topic)}/offload")["status"] == "NOT_RUN"
    for path in ("compaction", "offload"):
        assert status(broker, "PUT", f"{topic_path(topic)}/{path}", {"ledgerId": 0, "entryId": 0})[0] == 501
    shadow = {"PULSAR.SHADOW_SOURCE": topic}
    refused = {"reason": "Magnetar does not support shadow topics yet"}
    assert status(broker, "PUT", f"{topic_path(topic)}-shadow", shadow) == (501, refused)


def test_size_of_a_backlog(broker: Broker, client: pulsar.Client, topic: str) -> None:
    ids = publish(client, topic, numbered(10))
    size = broker.rest.internal_stats(topic)["totalSize"]
    start = {"ledgerId": ids[4].ledger_id(), "entryId": ids[4].entry_id()}
    assert status(broker, "PUT", f"{topic_path(topic)}/backlogSize", start) == (200, size // 2)
