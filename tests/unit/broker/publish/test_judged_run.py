"""The stored part of a run with duplicates, compared with a reference that checks message by message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.publish.judged_run import judge_run
from magnetar.broker.publish.sequence_ids import Verdict
from magnetar.wire.entries.batch import BatchedMessage, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.base.errors import MagnetarError


def batch(sequence_ids: range) -> bytes:
    messages = [BatchedMessage(pb.SingleMessageMetadata(sequence_id=each), str(each).encode()) for each in sequence_ids]
    metadata = pb.MessageMetadata(
        producer_name="p",
        sequence_id=sequence_ids[0],
        highest_sequence_id=sequence_ids[-1],
        num_messages_in_batch=len(sequence_ids),
        publish_time=1,
    )
    return build_entry(metadata, encode_batch(messages))


def sequence_ids_in(entry: bytes) -> list[int]:
    return [int(message.payload) for message in decode_batch(parse_metadata(entry), payload_of(entry))]


def raised(error: MagnetarError) -> None:
    raise error


RUNS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), min_size=1, max_size=8)


@given(st.integers(-1, 12), RUNS)
def test_each_message_is_stored_unless_the_producer_has_come_as_far(pushed: int, run: list[tuple[int, int]]) -> None:
    batches = [range(first, first + count) for first, count in run]
    heads = [(each[0], each[-1], len(each)) for each in batches]
    judged = judge_run(pushed, heads, list(map(batch, batches)), raised)
    expected, highest = list[list[int]](), pushed
    for each in batches:
        expected.append([sequence_id for sequence_id in each if sequence_id > highest])
        highest = max(highest, each[-1])
    assert [verdict is Verdict.NEW for verdict in judged.verdicts] == [bool(new) for new in expected]
    assert list(map(sequence_ids_in, judged.entries)) == [new for new in expected if new]
    assert judged.highest == highest
