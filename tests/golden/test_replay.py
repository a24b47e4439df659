"""The replayer: accepted and rejected output."""

from __future__ import annotations

import pytest

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.golden.differences import Names, Pairs
from tests.golden.replay import DivergenceError, replay
from tests.golden.transcript import from_text

FLAGS = "feature_flags { supports_get_partitioned_metadata_without_auto_creation: true }"
CONNECTED = f"""\
client 1: CONNECT client_version: "c" protocol_version: 20
broker 1: CONNECTED server_version: "Pulsar Server" protocol_version: 20 max_message_size: 5242880 {FLAGS}
"""
LOOKUP = """\
client 1: LOOKUP topic: "persistent://public/default/t" request_id: 1
"""
FOUND = """\
broker 1: LOOKUP_RESPONSE brokerServiceUrl: "pulsar://there:6650" response: Connect request_id: 1 authoritative: true
"""
BROKEN_RULE = """\
client 1: SEND producer_id: 7 sequence_id: 0
  metadata: producer_name: "p" sequence_id: 0 publish_time: 1
"""


def play(*lines: str) -> None:
    replay(from_text("# A scenario.\nstarted_at_ms: 1800000000000\n\n" + CONNECTED + "".join(lines)))


def test_recorded_output_passes() -> None:
    play(LOOKUP, FOUND, "client 1 left\n")


def test_connections_are_apart() -> None:
    play(LOOKUP, CONNECTED.replace(" 1:", " 2:"), LOOKUP.replace(" 1:", " 2:"), FOUND.replace(" 1:", " 2:"), FOUND)
    with pytest.raises(DivergenceError, match="does not say"):
        play(CONNECTED.replace(" 1:", " 2:"), LOOKUP, FOUND.replace(" 1:", " 2:"))


def test_unrecorded_output_does_not_pass() -> None:
    with pytest.raises(DivergenceError, match=r"says more.*LOOKUP_RESPONSE"):
        play(LOOKUP)


def test_early_output_does_not_pass() -> None:
    play(LOOKUP, FOUND, "passed: 1000 ms\n")
    with pytest.raises(DivergenceError, match="says more"):
        play(LOOKUP, "passed: 1000 ms\n", FOUND)


def test_the_first_difference_is_named_with_its_place() -> None:
    with pytest.raises(DivergenceError, match=r"(?s)event 3: broker 1: LOOKUP_RESPONSE.*response: recorded 2, now 1"):
        play(LOOKUP, FOUND.replace("Connect", "Failed"))


def test_a_connection_that_the_broker_closes() -> None:
    play(BROKEN_RULE, "broker 1 left\n")
    with pytest.raises(DivergenceError, match="has closed"):
        play(BROKEN_RULE, LOOKUP, FOUND)
    with pytest.raises(DivergenceError, match="does not close"):
        play(LOOKUP, FOUND, "broker 1 left\n")


def test_a_ledger_that_the_broker_never_named_is_not_taken_from_the_client() -> None:
    with pytest.raises(DivergenceError, match="never told"):
        play("client 1: ACK consumer_id: 1 ack_type: Individual message_id { ledgerId: 7 entryId: 0 }\n")


def test_an_operator_does_only_what_is_known() -> None:
    with pytest.raises(AssertionError, match="juggle"):
        play("operator: juggle\n")


def test_counterparts_stay_together() -> None:
    pairs = Pairs()
    assert pairs.match(5, 1)
    assert pairs.match(6, 2)
    assert pairs.match(5, 1)
    assert not pairs.match(5, 2)
    assert not pairs.match(7, 1)
    assert not pairs.match(5, 3)


def test_names_of_the_recording_become_those_of_now() -> None:
    names = Names()
    names.ledgers.match(50, 3)
    names.producers.match("standalone-0-7", "ours")
    ack = pb.BaseCommand(type=pb.BaseCommand.ACK)
    ack.ack.message_id.add(ledgerId=50, entryId=1)
    ack.ack.message_id.add(ledgerId=2**64 - 1, entryId=2**64 - 1)
    names.translate(ack)
    assert [message_id.ledgerId for message_id in ack.ack.message_id] == [3, 2**64 - 1]
    producer = pb.CommandProducer(topic="t", producer_id=0, request_id=0, producer_name="standalone-0-7")
    names.translate(producer)
    assert producer.producer_name == "ours"


def test_a_name_that_the_client_gave_stays() -> None:
    names = Names()
    names.note_names_of_client(pb.CommandProducer(topic="t", producer_id=0, request_id=0, producer_name="mine"))
    assert not names.producers.match("mine", "other")
    assert names.producers.match("mine", "mine")
