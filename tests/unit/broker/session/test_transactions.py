"""Parts of transactions are refused, not published or acknowledged outside of them."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.errors import ServerError
from magnetar.base.position import EARLIEST, Position
from magnetar.sim.cluster import Cluster, entry
from magnetar.wire import commands
from magnetar.wire.entries.origin import Origin, stamp
from magnetar.wire.frame import encode_command
from magnetar.wire.message_id import message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb


def send(sequence_id: int, text: str, **fields: Any) -> bytes:  # noqa: ANN401 - of CommandSend
    body = pb.CommandSend(producer_id=1, sequence_id=sequence_id, **fields)
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=body), entry(text))


@pytest.mark.parametrize("deduplication", [False, True])
@pytest.mark.parametrize(
    "fields", [{"txnid_most_bits": 1, "txnid_least_bits": 2}, {"txnid_most_bits": 0}, {"txnid_least_bits": 0}]
)
def test_a_send_in_a_transaction_is_refused_and_the_others_are_stored(
    fields: dict[str, int], *, deduplication: bool
) -> None:
    cluster = Cluster(settings={"brokerDeduplicationEnabled": deduplication})
    client = cluster.client()
    client.produce()
    client.say(send(0, "before"), send(1, "within", **fields))
    assert [error.error for error in client.take("SEND_ERROR")] == [ServerError.NotAllowedError]
    assert [sequence_id for sequence_id, _ in client.receipts()] == [0]
    if not deduplication:
        client.say(send(2, "behind"))
        assert [sequence_id for sequence_id, _ in client.receipts()] == [2]
    client.subscribe()
    assert client.messages() == (["before"] if deduplication else ["before", "behind"])


def test_an_entry_that_names_a_transaction_is_refused() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    within = entry("within", txnid_most_bits=1, txnid_least_bits=2)
    client.say(commands.send(producer_id=1, sequence_id=0, entry=within))
    assert [error.error for error in client.take("SEND_ERROR")] == [ServerError.NotAllowedError]
    assert client.receipts() == []


def test_an_entry_of_another_cluster_is_taken_as_it_is_there() -> None:
    """An older broker may have stored it; refusing it would block its link for ever."""
    cluster = Cluster(targets=["jfk"])
    writer = cluster.client()
    writer.produce(name="pulsar.repl.jfk-->ewr")
    stored = stamp(entry("within", txnid_most_bits=1), Origin("jfk", Position(3, 0), EARLIEST))
    writer.say(commands.send(producer_id=1, sequence_id=0, entry=stored))
    assert len(writer.receipts()) == 1


def test_a_producer_of_transactions_is_refused_and_creates_no_topic() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce(txn_enabled=True)
    assert [error.error for error in client.take("ERROR")] == [ServerError.NotAllowedError]
    assert not cluster.topics.loaded


def test_a_replicator_of_a_cluster_with_transactions_is_admitted() -> None:
    """It may send entries of transactions; refusing it would block its link for ever."""
    client = Cluster().client()
    client.produce(name="pulsar.repl.jfk-->ewr", txn_enabled=True)
    assert client.names() == ["PRODUCER_SUCCESS"]


def test_an_acknowledgement_in_a_transaction_acknowledges_nothing() -> None:
    cluster = Cluster()
    client = cluster.client()
    client.produce()
    client.send("a")
    ((_, position),) = client.receipts()
    client.subscribe()
    for request_id in (7, None):
        body = pb.CommandAck(
            consumer_id=1,
            ack_type=pb.CommandAck.Individual,
            message_id=[message_id(position)],
            txnid_most_bits=1,
            txnid_least_bits=2,
            request_id=request_id,
        )
        client.say(encode_command(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=body)))
    (answer,) = client.take("ACK_RESPONSE")
    assert (answer.request_id, answer.error) == (7, ServerError.NotAllowedError)
    assert cluster.subscription().backlog == 1
