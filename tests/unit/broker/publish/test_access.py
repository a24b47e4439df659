"""Access modes of producers, their names, and waiting producers (protocol: Producers)."""

from __future__ import annotations

from functools import partial

import pytest

from magnetar.admin.models.logs import ProducerState
from magnetar.base.errors import RemoteProtocolError, ServerError
from magnetar.broker.admin.administration import Administration
from magnetar.sim.cluster import TOPIC, Client, Cluster
from magnetar.wire import commands
from magnetar.wire.proto import pulsar_api_pb2 as pb

ONLY, WAITING, FENCING = pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing


def connected(cluster: Cluster, name: str, mode: int = pb.Shared, **fields: int) -> Client:
    client = cluster.client()
    client.produce(name=name, producer_access_mode=mode, **fields)
    return client


def readiness(client: Client) -> list[bool]:
    return [success.producer_ready for success in client.take("PRODUCER_SUCCESS")]


def refusals(client: Client) -> list[int]:
    return [error.error for error in client.take("ERROR")]


def test_shared_producers_share() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a"), connected(cluster, "b")
    assert readiness(first) == readiness(second) == [True]


def test_a_name_is_held_by_one_live_producer() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a"), connected(cluster, "a")
    assert first.probes == 1
    first.say(commands.pong())
    assert refusals(second) == [ServerError.ProducerBusy]


def test_the_name_of_a_dead_producer_is_free() -> None:
    cluster = Cluster()
    connected(cluster, "a")
    second = connected(cluster, "a")
    cluster.loop.advance(6)
    assert readiness(second) == [True]


def test_the_name_of_a_producer_that_leaves_while_it_is_examined_is_free_at_once() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a"), connected(cluster, "a")
    assert first.probes == 1
    first.leave()
    assert readiness(second) == [True]


@pytest.mark.parametrize("mode", [pb.Shared, ONLY])
def test_no_producer_joins_an_exclusive_one(mode: int) -> None:
    cluster = Cluster()
    assert connected(cluster, "a", ONLY).take("PRODUCER_SUCCESS")[0].topic_epoch == 0
    expected = ServerError.ProducerBusy if mode == pb.Shared else ServerError.ProducerFenced
    assert refusals(connected(cluster, "b", mode)) == [expected]


def test_an_epoch_that_was_left_behind_is_fenced() -> None:
    cluster = Cluster()
    connected(cluster, "a", ONLY).leave()
    connected(cluster, "b", ONLY).leave()
    assert refusals(connected(cluster, "c", ONLY, topic_epoch=0)) == [ServerError.ProducerFenced]
    assert readiness(connected(cluster, "d", ONLY, topic_epoch=1)) == [True]


def test_a_fenced_producer_stays_fenced_after_a_reload() -> None:
    cluster = Cluster()
    connected(cluster, "a", ONLY).leave()
    connected(cluster, "b", ONLY).leave()
    cluster.crash()
    assert refusals(connected(cluster, "a", ONLY, topic_epoch=0)) == [ServerError.ProducerFenced]
    (success,) = connected(cluster, "c", ONLY).take("PRODUCER_SUCCESS")
    assert success.topic_epoch == 2


def test_a_producer_that_another_cluster_has_fenced_stays_fenced() -> None:
    cluster = Cluster()
    connected(cluster, "a", ONLY).leave()
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    for epoch in (3, 2):
        state = ProducerState(topic_epoch=epoch)
        cluster.do(partial(cluster.loop.create_task, administration.logs.add_producer_state(TOPIC, state))).result()
    cluster.crash()
    assert refusals(connected(cluster, "a", ONLY, topic_epoch=0)) == [ServerError.ProducerFenced]
    administration = Administration(cluster.environment, cluster.domains, "http://here")
    known = cluster.loop.run_until_complete(administration.logs.producer_state(TOPIC))
    assert known == ProducerState(topic_epoch=3)
    (success,) = connected(cluster, "b", ONLY).take("PRODUCER_SUCCESS")
    assert success.topic_epoch == 4


def test_every_producer_is_told_the_epoch_once_there_is_one() -> None:
    cluster = Cluster()
    before = connected(cluster, "a", pb.Shared)
    assert not before.take("PRODUCER_SUCCESS")[0].HasField("topic_epoch")
    connected(cluster, "b", FENCING).leave()
    (success,) = connected(cluster, "c", pb.Shared).take("PRODUCER_SUCCESS")
    assert success.HasField("topic_epoch")
    assert success.topic_epoch == 0


def test_waiting_producers_get_the_topic_in_turn() -> None:
    cluster = Cluster()
    first = connected(cluster, "a", ONLY)
    second, third = connected(cluster, "b", WAITING), connected(cluster, "c", WAITING)
    assert readiness(second) == readiness(third) == [False]
    first.leave()
    assert readiness(second) == [True]
    assert readiness(third) == []
    second.say(commands.close_producer(producer_id=1, request_id=50))
    assert readiness(third) == [True]


def test_a_waiting_producer_gets_the_topic_after_the_last_shared_one_has_left() -> None:
    cluster = Cluster()
    shared = [connected(cluster, name) for name in "ab"]
    waiting, next_one = connected(cluster, "c", WAITING), connected(cluster, "d", WAITING)
    assert readiness(waiting) == [False]
    assert refusals(connected(cluster, "e")) == [ServerError.ProducerBusy]
    shared[0].leave()
    assert readiness(waiting) == []
    shared[1].leave()
    assert readiness(waiting) == [True]
    assert readiness(next_one) == [False]
    waiting.leave()
    assert readiness(next_one) == [True]


def test_a_producer_that_stops_waiting_does_not_get_the_topic() -> None:
    cluster = Cluster()
    first = connected(cluster, "a", ONLY)
    second, third = connected(cluster, "b", WAITING), connected(cluster, "c", WAITING)
    second.leave()
    first.leave()
    assert readiness(third) == [False, True]
    assert list(cluster.topic().producers) == ["c"]


def test_asking_again_while_waiting_is_not_an_answer() -> None:
    cluster = Cluster()
    connected(cluster, "a", ONLY)
    second = connected(cluster, "b", WAITING)
    second.produce(name="b", producer_access_mode=WAITING)
    assert readiness(second) == [False, False]


def test_a_waiting_producer_may_not_publish() -> None:
    cluster = Cluster()
    connected(cluster, "a", ONLY)
    second = connected(cluster, "b", WAITING)
    with pytest.raises(AssertionError):
        second.send("too early")
    assert isinstance(cluster.loop.problems[0]["exception"], RemoteProtocolError)
    assert cluster.topic().ledger.entries == 0


def test_fencing_drives_out_everybody_and_tells_who_waits() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a", ONLY), connected(cluster, "b", WAITING)
    second.names()
    third = connected(cluster, "c", FENCING)
    assert third.take("PRODUCER_SUCCESS")[0].topic_epoch == 1
    assert len(first.take("CLOSE_PRODUCER")) == 1
    assert refusals(second) == [ServerError.ProducerFenced]
    third.leave()
    assert readiness(second) == []
    assert cluster.topic().producers == {}


def test_a_waiting_producer_is_notified_of_an_unload() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a", ONLY), connected(cluster, "b", WAITING)
    cluster.do(lambda: cluster.topics.unload(TOPIC))
    assert len(first.take("CLOSE_PRODUCER")) == len(second.take("CLOSE_PRODUCER")) == 1
    second.produce(name="b", producer_access_mode=WAITING)
    assert readiness(second) == [False, True]


def test_closing_a_producer_that_waits_is_answered_and_nothing_more() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a", ONLY), connected(cluster, "b", WAITING)
    second.names()
    second.say(commands.close_producer(producer_id=1, request_id=9))
    assert second.names() == ["SUCCESS"]
    first.leave()
    assert second.names() == []


@pytest.mark.parametrize("mode", [pb.Shared, ONLY, FENCING])
@pytest.mark.parametrize("deduplicated", [False, True])
def test_fencing_replaces_a_live_producer_of_the_same_name(mode: int, *, deduplicated: bool) -> None:
    cluster = Cluster(settings={"brokerDeduplicationEnabled": deduplicated})
    first = connected(cluster, "a", mode)
    first.send("0", "1", first=0)
    second = connected(cluster, "a", FENCING)
    (success,) = second.take("PRODUCER_SUCCESS")
    assert (success.producer_ready, success.last_sequence_id) == (True, 1 if deduplicated else -1)
    assert first.names() == ["PRODUCER_SUCCESS", "SEND_RECEIPT", "SEND_RECEIPT", "CLOSE_PRODUCER"]
    first.send("late", first=2)
    assert first.names() == []
    second.send("2", first=2)
    assert [sequence_id for sequence_id, _ in second.receipts()] == [2]
    assert cluster.topic().ledger.entries == 3
    if success.topic_epoch:
        first.produce(name="a", producer_access_mode=FENCING, topic_epoch=success.topic_epoch - 1)
        assert refusals(first) == [ServerError.ProducerFenced]
    assert list(cluster.topic().producers) == ["a"]


def test_fencing_replaces_a_producer_of_the_same_connection() -> None:
    cluster = Cluster()
    client = connected(cluster, "a")
    client.names()
    client.produce(2, "a", producer_access_mode=FENCING)
    assert client.names() == ["CLOSE_PRODUCER", "PRODUCER_SUCCESS"]
    client.send("x", producer_id=2)
    assert client.names() == ["SEND_RECEIPT"]


def test_a_producer_waits_for_one_of_the_same_name() -> None:
    cluster = Cluster()
    first, second = connected(cluster, "a", ONLY), connected(cluster, "a", WAITING)
    assert readiness(second) == [False]
    first.say(commands.pong())
    cluster.loop.advance(6)
    assert (readiness(second), refusals(second)) == ([], [])
    first.leave()
    assert readiness(second) == [True]
    second.send("x")
    assert len(second.receipts()) == 1


def test_a_producer_that_waits_for_a_dead_one_of_the_same_name_gets_the_topic() -> None:
    cluster = Cluster()
    connected(cluster, "a", ONLY)
    second = connected(cluster, "a", WAITING)
    assert readiness(second) == [False]
    cluster.loop.advance(6)
    assert readiness(second) == [True]


def test_a_producer_that_fences_the_others_takes_their_room() -> None:
    cluster = Cluster(settings={"maxProducersPerTopic": 2})
    others = [connected(cluster, name) for name in "ab"]
    assert refusals(connected(cluster, "c")) == [ServerError.ProducerBusy]
    assert readiness(connected(cluster, "c", FENCING)) == [True]
    assert [len(each.take("CLOSE_PRODUCER")) for each in others] == [1, 1]
