"""Acknowledgements with false values, and more of them than there are messages."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

from magnetar.wire.proto import pulsar_api_pb2 as pb
from tests.hostile.attacks.batches import COUNTS
from tests.hostile.attacks.publishing import EXTREMES
from tests.hostile.catalogue import behaviour
from tests.hostile.tools import connect, consuming, fill, frame, pump, pump_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hostile.catalogue import Target
    from tests.kit.raw import RawConnection, Value

MESSAGES = 2000
CHANCE = random.Random(13)
INDIVIDUAL, CUMULATIVE = pb.CommandAck.Individual, pb.CommandAck.Cumulative


def _prepared(target: Target, count: int = MESSAGES) -> tuple[RawConnection, pb.MessageIdData]:
    """Publish messages, subscribe and receive the first; return the connection and the id of that message."""
    with consuming(target) as first:
        fill(target, count)
        first.flow(1)
        message_id = first.expect("MESSAGE").message_id
    connection = consuming(target)
    connection.flow(count)
    return connection, message_id


def _ack(ids: list[pb.MessageIdData], kind: pb.CommandAck.AckType.ValueType = INDIVIDUAL, **fields: Value) -> bytes:
    return frame("ACK", consumer_id=1, ack_type=kind, message_id=ids, **fields)


def _id(ledger: int, entry_id: int, **fields: Value) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=ledger, entryId=entry_id, **fields)


@behaviour("batch_size of 2^31-1, negative and 0, with and without ack sets.")
def false_batch_sizes(target: Target) -> int:
    connection, first = _prepared(target)
    words: tuple[list[int], ...] = ([], [0], [-1], [1] * 16, [-(2**63)] * 100)
    frames = [
        _ack([_id(first.ledgerId, entry_id, batch_size=size, ack_set=ack_set)], kind)
        for entry_id, size, ack_set, kind in itertools.product((0, 1), COUNTS, words, (INDIVIDUAL, CUMULATIVE))
    ]
    with connection:
        return pump(target, connection, itertools.cycle([b"".join(frames)]))


@behaviour("Ack sets of 60,000 words.", seconds=5.0)
def huge_ack_sets(target: Target) -> int:
    connection, first = _prepared(target)
    frames = [
        _ack([_id(first.ledgerId, each, batch_size=2**31 - 1, ack_set=[CHANCE.getrandbits(62)] * 60_000)])
        for each in range(10)
    ]
    with connection:
        return pump(target, connection, itertools.cycle(frames))


@behaviour("Acknowledgements of positions that do not exist.")
def unknown_positions(target: Target) -> int:
    connection, first = _prepared(target)
    ledgers = (*EXTREMES, first.ledgerId, first.ledgerId + 1)
    frames = [
        _ack([_id(ledger, entry_id)], kind)
        for ledger, entry_id, kind in itertools.product(ledgers, EXTREMES, (INDIVIDUAL, CUMULATIVE))
    ]
    with connection:
        return pump(target, connection, itertools.cycle([b"".join(frames)]))


@behaviour("100,000 random positions in one ACK, again and again.", seconds=6.0)
def hundred_thousand_in_one(target: Target) -> int:
    connection, first = _prepared(target)
    ids = [_id(first.ledgerId, CHANCE.randrange(10**9)) for _ in range(100_000)]
    with connection:
        return pump(target, connection, itertools.cycle([_ack(ids, request_id=1)]))


@behaviour("150,000 positions in one ACK, individual and cumulative, and ack sets of 400,000 words.", seconds=8.0)
def many(target: Target) -> int:
    connection, first = _prepared(target, 20_000)
    ids = [_id(first.ledgerId, each % 20_000) for each in range(150_000)]
    words = [_id(first.ledgerId, each, ack_set=[1] * 400_000) for each in range(2)]
    frames = [_ack(each, kind, request_id=1) for each in (ids, words, words[:1]) for kind in (INDIVIDUAL, CUMULATIVE)]
    with connection:
        return pump(target, connection, itertools.cycle(frames))


@behaviour("One of 3,000 consumers acknowledges messages that others hold, or nobody, 1,000 in one ACK.", seconds=12.0)
def for_others(target: Target) -> int:
    fill(target, 50_000, 10)
    kinds = {"shared": pb.CommandSubscribe.Shared, "keyed": pb.CommandSubscribe.Key_Shared}
    with connect(target) as connection:
        for name, kind in kinds.items():
            subscribing = (
                frame(
                    "SUBSCRIBE",
                    topic=target.topic(),
                    subscription=name,
                    subType=kind,
                    consumer_id=each,
                    request_id=each,
                    initialPosition=pb.CommandSubscribe.Earliest,
                )
                + frame("FLOW", consumer_id=each, messagePermits=5)
                for each in range(1 if name == "shared" else 10_001, 3001 if name == "shared" else 13_001)
            )
            pump(target, connection, subscribing)
        frames = (
            frame(
                "ACK",
                consumer_id=consumer,
                ack_type=INDIVIDUAL,
                message_id=[_id(ledger, entry_id) for entry_id in range(start, start + 2000, 2)],
            )
            for start in range(0, 50_000, 2000)
            for consumer in (1, 10_001)
            for ledger in range(1, 10)
        )
        return pump(target, connection, frames)


@behaviour("Cumulative acknowledgement on a Shared subscription, backwards, and of several ids.")
def cumulative_on_shared(target: Target) -> int:
    connection, first = _prepared(target)
    frames = [_ack([_id(first.ledgerId, each)], CUMULATIVE) for each in range(1000, 0, -1)]
    frames.append(_ack([_id(first.ledgerId, each) for each in range(500)], CUMULATIVE))
    with connection:
        return pump(target, connection, itertools.cycle([b"".join(frames)]))


@behaviour("Every second message of 20,000 is acknowledged, in random order and with receipts.", seconds=8.0)
def holes(target: Target) -> int:
    connection, first = _prepared(target, 20_000)
    entry_ids = list(range(0, 20_000, 2))
    CHANCE.shuffle(entry_ids)
    frames = [_ack([_id(first.ledgerId, each)], request_id=each) for each in entry_ids]
    with connection:
        return pump(target, connection, itertools.chain(frames, itertools.cycle([b"".join(frames[:1000])])))


@behaviour("The same acknowledgement without end, with receipts that are not read.")
def repeated_unread(target: Target) -> int:
    fill(target, 100)
    return pump_again(target, lambda: consuming(target), _ack([_id(1, 1)], request_id=1) * 1000, reads=False)


@behaviour("Acknowledgements and permits for consumers that do not exist.")
def unknown_consumers(target: Target) -> int:
    def frames() -> Iterator[bytes]:
        while True:
            yield b"".join(
                frame("ACK", consumer_id=each, ack_type=INDIVIDUAL, message_id=[_id(1, 1)], request_id=each)
                + frame("FLOW", consumer_id=each, messagePermits=2**32 - 1)
                + frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=each)
                + frame("UNSUBSCRIBE", consumer_id=each, request_id=each)
                for each in EXTREMES
                if each != 1
            )

    with consuming(target) as connection:
        return pump(target, connection, frames())


@behaviour("Acknowledgements with validation errors, properties and transactions of false ids.")
def strange_fields(target: Target) -> int:
    connection, first = _prepared(target)
    frames = b"".join(
        _ack(
            [_id(first.ledgerId, 1)],
            validation_error=each,
            properties=[pb.KeyLongValue(key="k" * 100, value=2**64 - 1)] * 100,
            txnid_most_bits=transaction,
        )
        for each in range(5)
        for transaction in (0, 2**64 - 1)
    )
    with connection:
        return pump(target, connection, itertools.cycle([frames * 20]))
