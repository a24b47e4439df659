"""A topic that is unloaded under load: no message is lost or duplicated, and no client waits for ever."""

from __future__ import annotations

from magnetar.broker.admin.administration import Administration
from magnetar.broker.session.receiving import receive
from magnetar.sim.cluster import TOPIC, Client, Cluster, Exclusive, Shared
from magnetar.wire import commands


def stored(cluster: Cluster) -> list[str]:
    """Return the contents of the topic, as read by a consumer."""
    reader = cluster.client()
    reader.subscribe(subscription="all")
    return reader.messages()


def unload(cluster: Cluster) -> None:
    cluster.loop.call_soon(cluster.topics.unload, TOPIC)
    cluster.loop.spin()


def publishing(cluster: Cluster, *texts: str) -> Client:
    client = cluster.client()
    client.produce(name="p")
    client.names()
    cluster.prompt = False
    client.send(*texts)
    return client


def test_accepted_entries_are_receipted_before_the_producer_is_closed() -> None:
    cluster = Cluster()
    client = publishing(cluster, "a", "b")
    unload(cluster)
    assert client.names() == []
    cluster.prompt = True
    cluster.settle()
    assert client.names() == ["SEND_RECEIPT", "SEND_RECEIPT", "CLOSE_PRODUCER"]
    assert stored(cluster) == ["a", "b"]


def test_messages_sent_during_a_close_are_not_stored_and_resending_stores_them_once() -> None:
    cluster = Cluster()
    client = publishing(cluster, "a")
    unload(cluster)
    client.send("b", first=1)
    cluster.prompt = True
    cluster.settle()
    assert client.names() == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    client.produce(name="p")
    client.send("b", first=1)
    assert stored(cluster) == ["a", "b"]


def test_a_producer_that_comes_back_at_once_is_answered_when_the_topic_is_there_again() -> None:
    cluster = Cluster()
    client = publishing(cluster, "a")
    unload(cluster)
    other = cluster.client()
    other.produce(name="q")
    assert other.names() == []
    cluster.prompt = True
    cluster.settle()
    assert other.names() == ["PRODUCER_SUCCESS"]
    client.produce(name="p")
    client.send("b")
    other.send("c")
    assert stored(cluster) == ["a", "b", "c"]


def test_a_consumer_that_comes_back_at_once_is_answered_when_the_topic_is_there_again() -> None:
    cluster = Cluster()
    publishing(cluster, "a")
    unload(cluster)
    consumer = cluster.client()
    consumer.subscribe(permits=0)
    assert consumer.names() == []
    cluster.prompt = True
    cluster.settle()
    assert consumer.names() == ["SUCCESS"]
    consumer.say(commands.flow(consumer_id=1, message_permits=10))
    assert consumer.messages() == ["a"]


def test_a_consumer_that_gave_up_while_it_waited_is_not_let_in() -> None:
    cluster = Cluster()
    publishing(cluster, "a")
    unload(cluster)
    consumer = cluster.client()
    consumer.subscribe(permits=0)
    consumer.say(commands.close_consumer(consumer_id=1, request_id=99))
    cluster.prompt = True
    cluster.settle()
    assert [answer.request_id for answer in consumer.take("SUCCESS")] == [99]
    assert "worker" not in cluster.topic().subscriptions


def test_everything_acknowledged_before_is_acknowledged_after() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a", "b", "c")
    client.subscribe(permits=2)
    (_, first), (_, second), _ = client.receipts()
    cluster.prompt = False
    client.ack(first)
    client.ack(second, request_id=7)
    unload(cluster)
    cluster.prompt = True
    cluster.settle()
    assert [answer.request_id for answer in client.take("ACK_RESPONSE")] == [7]
    client.messages()
    client.subscribe()
    assert client.messages() == ["c"]


def test_own_entries_under_way_are_known_to_the_links_after_it() -> None:
    cluster = Cluster(targets=["jfk"])
    publishing(cluster, "a", "b")
    unload(cluster)
    cluster.prompt = True
    cluster.settle()
    topic = cluster.topics.loaded[TOPIC]  # loaded for its links, without clients
    assert topic.replicators["jfk"].lag.backlog == 2


def test_unloading_ends_although_everybody_publishes_on() -> None:
    cluster = Cluster()
    client = publishing(cluster, "a")
    first = cluster.topics.loaded[TOPIC]
    unload(cluster)
    for number in range(20):
        client.produce(producer_id=number + 2, name=f"p{number}")
        client.send("x", producer_id=1)
        if cluster.store.pending:
            cluster.commit(1)
    cluster.prompt = True
    cluster.settle()
    assert cluster.topic() is not first


def test_a_topic_may_be_deleted_while_it_closes() -> None:
    cluster = Cluster()
    publishing(cluster, "a")
    unload(cluster)
    cluster.loop.call_soon(cluster.delete, TOPIC)
    cluster.prompt = True
    cluster.settle()
    assert not cluster.topics.exists(TOPIC)
    assert stored(cluster) == []


def test_closing_the_broker_leaves_nothing_of_an_unload_behind() -> None:
    cluster = Cluster(targets=["jfk"])
    publishing(cluster, "a")
    unload(cluster)
    cluster.loop.call_soon(lambda: cluster.loop.create_task(cluster.topics.stop()))
    cluster.prompt = True
    cluster.settle()
    assert cluster.topics.loaded == {}
    assert cluster.loop.problems == []


def test_an_operator_is_answered_when_the_topic_can_be_used_again() -> None:
    cluster = Cluster()
    publishing(cluster, "a")
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    unloading = cluster.loop.start(administration.topics.unload(TOPIC))
    cluster.commit()
    assert not unloading.done()
    listing = cluster.loop.start(administration.subscriptions.names(TOPIC))
    assert not listing.done()
    cluster.prompt = True
    cluster.settle()
    assert unloading.done()
    assert listing.result() == []


# --- a failed write --------------------------------------------------------------------------------------------------


def test_after_a_failed_write_the_topic_starts_over_from_its_log() -> None:
    cluster = Cluster()
    client = publishing(cluster, "a")
    cluster.commit()
    client.send("b", "c", first=1)
    cluster.fail()
    cluster.prompt = True
    cluster.settle()
    assert client.names() == ["SEND_RECEIPT", "SEND_ERROR", "SEND_ERROR", "CLOSE_PRODUCER"]
    client.produce(name="p")
    client.send("b", "c", first=1)
    assert [sequence_id for sequence_id, _ in client.receipts()] == [1, 2]
    assert stored(cluster) == ["a", "b", "c"]


def test_nothing_is_appended_between_a_failure_and_starting_over() -> None:
    cluster = Cluster()
    client = publishing(cluster, "a")

    def failure_and_send_in_one_turn() -> None:
        cluster.store.fail()
        receive(client.session, client._decoder.feed_gathering(commands.send(producer_id=1, sequence_id=1, entry=b"x")))

    cluster.loop.call_soon(failure_and_send_in_one_turn)
    cluster.prompt = True
    cluster.settle()
    assert stored(cluster) == []
    assert cluster.loop.problems == []


def test_an_exclusive_consumer_that_waited_for_its_dead_owner_joins_the_topic_as_it_is_now() -> None:
    cluster = Cluster()
    publisher = cluster.client()
    publisher.produce()
    publisher.send("a")
    owner, heir = cluster.client(), cluster.client()
    owner.subscribe(kind=Exclusive, permits=0)
    heir.subscribe(kind=Exclusive, permits=0)
    assert owner.probes == 1
    unload(cluster)
    cluster.settle()
    cluster.loop.advance(6)
    cluster.settle()
    assert heir.names() == ["SUCCESS"]
    heir.say(commands.flow(consumer_id=1, message_permits=10))
    assert heir.messages() == ["a"]


def test_shared_consumers_are_all_told_before_anything_is_sent_again() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.subscribe(consumer_id=1, kind=Shared)
    client.send("a")
    assert client.messages() == ["a"]
    other = cluster.client()
    other.subscribe(consumer_id=1, kind=Shared, consumer_name="other")
    unload(cluster)
    cluster.settle()
    assert other.messages() == []
