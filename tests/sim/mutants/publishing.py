"""Bugs in deduplication, in receipts, and in stored entries."""

# ruff: noqa: ANN401 - a mutant replaces values of any type

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magnetar.broker.log.topic_log import TopicLog
from magnetar.broker.publish.deduplication import Deduplication
from magnetar.broker.publish.sequence_ids import SequenceIds
from magnetar.broker.session import producers as session_producers
from magnetar.wire import commands
from magnetar.wire.entries.batch import compress, decode_batch, encode_batch
from magnetar.wire.entries.entry import build_entry, parse_metadata, payload_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from magnetar.base.position import Position
    from tests.sim.mutants.base import Mutant


def replicated_sequence_ids_forgotten(_: Any) -> Any:
    return lambda _self, _metadata, _entries: {}


def sequence_ids_not_replayed(original: Any) -> Any:
    def mutant(self: SequenceIds, name: str, highest: int, now: float) -> None:
        if name in self._under_way or name in self._connected:
            original(self, name, highest, now)

    return mutant


def receipts_reversed(original: Any) -> Any:
    def mutant(*, producer_id: int, heads: Sequence[tuple[int, int, int]], first: Position) -> bytes:
        receipts: bytes = original(producer_id=producer_id, heads=heads[::-1], first=first)
        return receipts

    return mutant


def batches_reversed(original: Any) -> Any:
    def turned(entry: bytes) -> bytes:
        metadata = parse_metadata(entry)
        if metadata.num_messages_in_batch < 2:
            return entry
        payload = encode_batch(decode_batch(metadata, payload_of(entry))[::-1])
        return build_entry(metadata, compress(payload, metadata.compression))

    def mutant(self: TopicLog, entries: list[bytes], *others: Any) -> None:
        original(self, list(map(turned, entries)), *others)

    return mutant


def chunks_taken_for_messages(_: Any) -> Any:
    return lambda _metadata: True


MUTANTS: dict[str, Mutant] = {
    "sequence ids of other clusters' entries forgotten": (
        Deduplication,
        "replicating",
        replicated_sequence_ids_forgotten,
    ),
    "sequence ids not replayed from the log": (SequenceIds, "replay", sequence_ids_not_replayed),
    "receipts of a run in the wrong order": (commands, "send_receipts", receipts_reversed),
    "the messages of a batch stored in the wrong order": (TopicLog, "append", batches_reversed),
    "a chunk taken for a whole message": (session_producers, "is_whole", chunks_taken_for_messages),
}
