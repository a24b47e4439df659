"""Commands that are encoded once per message: SEND, SEND_RECEIPT, MESSAGE and ACK_RESPONSE.

They fill prepared protobuf messages, one set per thread, which takes a third of the time of building new ones. For runs
of these commands see ``run_frames``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.base.position import Position
from magnetar.wire import run_frames, varint
from magnetar.wire.frame import encode_command, frame_of
from magnetar.wire.message_id import UNSIGNED_MASK, Link, LinkRun, message_id
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Prepared(threading.local):
    """Prepared commands: for each its ``SerializeToString``, its body, and the message id inside the body."""

    def __init__(self) -> None:
        command = pb.BaseCommand(type=pb.BaseCommand.SEND)
        self.send = command.SerializeToString, command.send
        command = pb.BaseCommand(type=pb.BaseCommand.SEND)
        self.send_batch = command.SerializeToString, command.send
        command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
        self.send_receipt = command.SerializeToString, command.send_receipt, command.send_receipt.message_id
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self.message = command.SerializeToString, command.message, command.message.message_id
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self.partition_message = command.SerializeToString, command.message, command.message.message_id
        command = pb.BaseCommand(type=pb.BaseCommand.MESSAGE)
        self.link_message = command.SerializeToString, command.message
        command = pb.BaseCommand(type=pb.BaseCommand.ACK_RESPONSE)
        self.ack_response = command.SerializeToString, command.ackResponse


_prepared = _Prepared()


@dataclass(frozen=True, slots=True)
class Delivery:
    """MESSAGE fields of an entry that is redelivered or delivered in part."""

    redelivery_count: int = 0
    ack_set: Sequence[int] = ()
    consumer_epoch: int | None = None


FIRST_DELIVERY = Delivery()


def message(
    *,
    consumer_id: int,
    position: Position,
    entry: bytes,
    partition: int = -1,
    delivery: Delivery = FIRST_DELIVERY,
) -> bytes:
    """Build MESSAGE: deliver an entry to a consumer."""
    if delivery is not FIRST_DELIVERY:
        return _message_again(consumer_id, message_id(position, partition=partition), entry, delivery)
    if partition < 0:
        serialize, body, place = _prepared.message
    else:
        serialize, body, place = _prepared.partition_message
        place.partition = partition
    body.consumer_id = consumer_id
    _set(place, position)
    return frame_of(serialize(), entry)


def messages(
    *,
    consumer_id: int,
    ledger_id: int,
    entry_ids: Sequence[int],
    entries: Sequence[bytes],
    partition: int = -1,
    consumer_epoch: int | None = None,
) -> bytes:
    """Build a MESSAGE for each of several entries of one ledger, all delivered whole and for the first time."""
    if len(entries) >= run_frames.RUN_MIN or consumer_epoch is not None:
        frames = run_frames.messages(consumer_id, ledger_id, entry_ids, entries, partition, consumer_epoch)
        if frames is not None:
            return frames
    delivery = FIRST_DELIVERY if consumer_epoch is None else Delivery(consumer_epoch=consumer_epoch)
    return b"".join(
        message(
            consumer_id=consumer_id,
            position=Position(ledger_id, entry_id),
            entry=entry,
            partition=partition,
            delivery=delivery,
        )
        for entry_id, entry in zip(entry_ids, entries, strict=True)
    )


def _message_again(consumer_id: int, place: pb.MessageIdData, entry: bytes, delivery: Delivery) -> bytes:
    """Build MESSAGE for an entry that is redelivered or delivered in part."""
    body = pb.CommandMessage(
        consumer_id=consumer_id,
        message_id=place,
        redelivery_count=delivery.redelivery_count or None,
        ack_set=delivery.ack_set,
        consumer_epoch=delivery.consumer_epoch,
    )
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=body), entry)


def message_on_link(*, consumer_id: int, position: Position, entry: bytes, link: Link) -> bytes:
    """Build MESSAGE for a replication consumer, with the entry's place on the link."""
    serialize, body = _prepared.link_message
    body.consumer_id = consumer_id
    _set(body.message_id, position)
    _set(body.previous_message_id, link.previous)
    _set(body.floor_message_id, link.floor)
    body.link_start = link.link_start
    return frame_of(serialize(), entry)


def message_run(*, consumer_id: int, run: LinkRun) -> bytes:
    """Build MESSAGE with a run for a replication consumer."""
    body = pb.CommandMessage(
        consumer_id=consumer_id,
        message_id=message_id(run.first),
        **_run_fields(run),
    )
    if run.origin is not None:
        body.origin_message_id.CopyFrom(message_id(run.origin.position))
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=body), run.entries)


def send_run(*, producer_id: int, sequence_id: int, run: LinkRun) -> bytes:
    """Build SEND with a run of a link, which has the version of the schema at the target."""
    body = pb.CommandSend(
        producer_id=producer_id,
        sequence_id=sequence_id,
        origin_message_id=message_id(run.first if run.origin is None else run.origin.position),
        **_run_fields(run),
    )
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND, send=body), run.entries)


def _run_fields(run: LinkRun) -> dict[str, Any]:
    """Return the fields that both commands with a run have."""
    return {
        "previous_message_id": message_id(run.link.previous),
        "floor_message_id": message_id(run.link.floor),
        "link_start": run.link.link_start,
        "entry_sizes": run.sizes,
        "schema_version": run.schema_version,
        "origin_cluster": None if run.origin is None else run.origin.cluster,
    }


def send(
    *,
    producer_id: int,
    sequence_id: int,
    entry: bytes,
    num_messages: int = 1,
    marker: bool = False,
    is_chunk: bool = False,
) -> bytes:
    """Build SEND: publish an entry."""
    serialize, body = _prepared.send
    body.producer_id = producer_id
    body.sequence_id = sequence_id
    body.num_messages = num_messages
    body.marker = marker
    body.is_chunk = is_chunk
    return frame_of(serialize(), entry)


def send_batch(*, producer_id: int, sequence_ids: tuple[int, int], entry: bytes, num_messages: int) -> bytes:
    """Build SEND for a batch with the sequence ids of its first and of its last message."""
    serialize, body = _prepared.send_batch
    body.producer_id = producer_id
    body.sequence_id, body.highest_sequence_id = sequence_ids
    body.num_messages = num_messages
    return frame_of(serialize(), entry)


def send_receipt(*, producer_id: int, sequence_id: int, position: Position, highest_sequence_id: int = 0) -> bytes:
    """Build SEND_RECEIPT, the acknowledgement of a SEND; the position of a dropped duplicate is EARLIEST (-1:-1)."""
    serialize, body, place = _prepared.send_receipt
    body.producer_id = producer_id
    body.sequence_id = sequence_id
    body.highest_sequence_id = highest_sequence_id
    _set(place, position)
    return frame_of(serialize())


def send_receipts(*, producer_id: int, heads: Sequence[tuple[int, int, int]], first: Position) -> bytes:
    """Build a SEND_RECEIPT for each of several SENDs with adjacent positions from ``first`` on; see ``Sends.heads``."""
    if len(heads) == 1:
        sequence_id, highest, _ = heads[0]
        return send_receipt(
            producer_id=producer_id, sequence_id=sequence_id, highest_sequence_id=highest, position=first
        )
    if len(heads) >= run_frames.RUN_MIN:
        entry_ids = varint.write_consecutive(first.entry_id, len(heads))
        return run_frames.send_receipts(producer_id, heads, first.ledger_id, entry_ids)
    return b"".join(
        send_receipt(
            producer_id=producer_id,
            sequence_id=sequence_id,
            highest_sequence_id=highest,
            position=Position(first.ledger_id, entry_id),
        )
        for entry_id, (sequence_id, highest, _) in enumerate(heads, first.entry_id)
    )


def send_receipts_at(*, producer_id: int, heads: Sequence[tuple[int, int, int]], position: Position) -> bytes:
    """Build a SEND_RECEIPT with the same position for each of several SENDs; see ``Sends.heads``."""
    if len(heads) >= run_frames.RUN_MIN:
        ledger_id, entry_id = (number & UNSIGNED_MASK for number in position)
        entry_ids = [varint.write(entry_id)] * len(heads)
        return run_frames.send_receipts(producer_id, heads, ledger_id, entry_ids)
    return b"".join(
        send_receipt(producer_id=producer_id, sequence_id=sequence_id, highest_sequence_id=highest, position=position)
        for sequence_id, highest, _ in heads
    )


def ack_response(*, consumer_id: int, request_id: int) -> bytes:
    """Build ACK_RESPONSE, the confirmation of an ACK that carried a request id."""
    serialize, body = _prepared.ack_response
    body.consumer_id = consumer_id
    body.request_id = request_id
    return frame_of(serialize())


def _set(data: pb.MessageIdData, position: Position) -> None:
    """Write a position into a message id that has no other field set."""
    ledger_id, entry_id = position
    data.ledgerId = ledger_id & UNSIGNED_MASK
    data.entryId = entry_id & UNSIGNED_MASK
