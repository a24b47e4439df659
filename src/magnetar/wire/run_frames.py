"""Frames of a run, encoded without protobuf and byte for byte equal to protobuf's.

Receipts of one producer, and messages of one consumer, differ only in a few numbers. All other bytes are equal if the
encoded numbers have equal lengths, and are encoded once for these lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.wire import varint
from magnetar.wire.frame import frame_opening

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN_MIN = 6
"""Minimum number of frames; shorter runs are faster with prepared protobuf messages."""

_SEND_RECEIPT = b"\x08\x07\x3a"
_MESSAGE = b"\x08\x09\x4a"


def send_receipts(
    producer_id: int, heads: Sequence[tuple[int, int, int]], ledger_id: int, entry_ids: Sequence[bytes]
) -> bytes:
    """Encode a SEND_RECEIPT for each head (see ``Sends``); ``entry_ids`` are the encoded entry ids of the receipts."""
    sequence_ids = varint.write_each([sequence_id for sequence_id, _, _ in heads])
    highest_ids = varint.write_each([highest for _, highest, _ in heads])
    lengths = [_common_length(numbers) for numbers in (sequence_ids, entry_ids, highest_ids)]
    if None in lengths:
        return _mixed_receipts(producer_id, ledger_id, sequence_ids, entry_ids, highest_ids)
    before, place = _around_receipt(
        producer_id, ledger_id, len(sequence_ids[0]), len(entry_ids[0]), len(highest_ids[0])
    )
    parts: list[bytes] = []
    for sequence_id, number, highest_id in zip(sequence_ids, entry_ids, highest_ids, strict=True):
        parts += before, sequence_id, place, number, b"\x20", highest_id
    return b"".join(parts)


def messages(
    consumer_id: int,
    ledger_id: int,
    entry_ids: Sequence[int],
    entries: Sequence[bytes],
    partition: int,
    consumer_epoch: int | None = None,
) -> bytes | None:
    """Encode a MESSAGE for each entry, delivered whole and for the first time; ``partition`` is -1 for none.

    Returns None if the encoded entry ids differ in length.
    """
    numbers = varint.write_each(entry_ids)
    length = _common_length(numbers)
    if length is None:
        return None
    after = b"\x18" + varint.write(partition) if partition >= 0 else b""
    place = _open(b"\x12", b"\x08" + varint.write(ledger_id) + b"\x10", length + len(after))
    if consumer_epoch is not None:
        after += b"\x28" + varint.write(consumer_epoch)
    rest = length + len(after)
    before = _open(_MESSAGE, b"\x08" + varint.write(consumer_id) + place, rest)
    parts: list[bytes] = []
    for number, entry in zip(numbers, entries, strict=True):
        parts += frame_opening(len(before) + rest, len(entry)), before, number, after, entry
    return b"".join(parts)


def _mixed_receipts(producer_id: int, ledger_id: int, *numbers: Sequence[bytes]) -> bytes:
    """Encode SEND_RECEIPTs whose numbers (sequence ids, entry ids and highest sequence ids) differ in length."""
    lengths = list(zip(*(map(len, each) for each in numbers), strict=True))
    around = {each: _around_receipt(producer_id, ledger_id, *each) for each in set(lengths)}
    parts: list[bytes] = []
    for of_receipt, (sequence_id, number, highest_id) in zip(lengths, zip(*numbers, strict=True), strict=True):
        before, place = around[of_receipt]
        parts += before, sequence_id, place, number, b"\x20", highest_id
    return b"".join(parts)


def _around_receipt(producer_id: int, ledger_id: int, sequence: int, entry: int, highest: int) -> tuple[bytes, bytes]:
    """Return the bytes before the sequence id, and before the entry id; the numbers have these encoded lengths."""
    place = _open(b"\x1a", b"\x08" + varint.write(ledger_id) + b"\x10", entry)
    rest = sequence + len(place) + entry + 1 + highest
    command = _open(_SEND_RECEIPT, b"\x08" + varint.write(producer_id) + b"\x10", rest)
    return frame_opening(len(command) + rest) + command, place


def _common_length(numbers: Sequence[bytes]) -> int | None:
    lengths = set(map(len, numbers))
    return lengths.pop() if len(lengths) == 1 else None


def _open(field: bytes, body: bytes, rest: int) -> bytes:
    """Encode the beginning of a message field: ``body``, after which ``rest`` more bytes follow."""
    return field + varint.write(len(body) + rest) + body
