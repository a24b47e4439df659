from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.frames import AnswerError, Answers, acknowledgement, flow, payload, publish_frames
from magnetar.wire.entries import entry
from magnetar.wire.frame import FrameDecoder, encode_command
from magnetar.wire.proto import pulsar_api_pb2 as pb

unsigned = st.integers(min_value=0, max_value=2**64 - 1)
signed = st.integers(min_value=-(2**31), max_value=2**31 - 1)


def receipt(sequence_id: int) -> pb.BaseCommand:
    body = pb.CommandSendReceipt(
        producer_id=1, sequence_id=sequence_id, message_id=pb.MessageIdData(ledgerId=5, entryId=sequence_id)
    )
    return pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=body)


def ping() -> bytes:
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))


def test_published_frames_are_what_a_client_sends() -> None:
    frames = FrameDecoder().feed(b"".join(publish_frames(300, 100, publish_time_ms=7)))
    assert [frame.command.send.sequence_id for frame in frames] == list(range(300))
    for frame in frames:
        assert entry.checksum_matches(frame.body)
        metadata = entry.parse_metadata(frame.body)
        assert metadata.sequence_id == frame.command.send.sequence_id
        assert (metadata.producer_name, metadata.publish_time) == ("bench", 7)
        assert entry.payload_of(frame.body) == payload(100)


@given(ledger_id=unsigned, entry_id=unsigned, partition=signed, redelivery_count=st.integers(0, 2**32 - 1))
def test_an_acknowledgement_names_the_message(
    ledger_id: int, entry_id: int, partition: int, redelivery_count: int
) -> None:
    message_id = pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id, partition=partition)
    message = pb.CommandMessage(consumer_id=1, message_id=message_id, redelivery_count=redelivery_count)
    command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=message)
    (frame,) = FrameDecoder().feed(acknowledgement(command.SerializeToString()))
    assert frame.command == pb.BaseCommand(
        type=pb.BaseCommand.ACK,
        ack=pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[message_id]),
    )


def test_a_message_id_that_is_not_short_is_refused() -> None:
    message_id = pb.MessageIdData(ledgerId=1, entryId=1, ack_set=[-1] * 20)
    command = pb.BaseCommand(
        type=pb.BaseCommand.MESSAGE, message=pb.CommandMessage(consumer_id=1, message_id=message_id)
    )
    with pytest.raises(ValueError, match="message id"):
        acknowledgement(command.SerializeToString())


def test_flow_grants_permits() -> None:
    (frame,) = FrameDecoder().feed(flow(1_000))
    assert (frame.command.flow.consumer_id, frame.command.flow.messagePermits) == (1, 1_000)


@given(st.lists(st.booleans(), max_size=20), st.data())
def test_answers_are_the_same_however_they_are_cut(receipts: list[bool], data: st.DataObject) -> None:
    commands = [receipt(number) for number, is_receipt in enumerate(receipts) if is_receipt]
    stream = b"".join(
        encode_command(receipt(number)) if is_receipt else ping() for number, is_receipt in enumerate(receipts)
    )
    answers = Answers(pb.BaseCommand.SEND_RECEIPT)
    found = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += answers.feed(stream[:size])
        stream = stream[size:]
    assert [pb.BaseCommand.FromString(command) for command in found] == commands
    assert answers.pings == receipts.count(False)


def test_an_error_ends_the_load() -> None:
    refusal = pb.CommandSendError(producer_id=1, sequence_id=3, error=pb.PersistenceError, message="the disk is full")
    frame = encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND_ERROR, send_error=refusal))
    with pytest.raises(AnswerError, match="the disk is full"):
        Answers(pb.BaseCommand.SEND_RECEIPT).feed(frame)
