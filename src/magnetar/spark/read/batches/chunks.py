"""Messages in chunks (PIP-37), put together. A message is in the place of its last chunk.

A chunk states the id of its message, its index and the number of chunks. Chunks of several producers alternate. A
producer that repeats a message starts again with the first chunk.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, RemoteProtocolError
from magnetar.spark.read.batches.messages import WHOLE_SIZE_MAX, Stored
from magnetar.wire.entries.entry import build_entry, payload_of
from magnetar.wire.proto import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Chunks = Mapping[int, Stored]

PENDING_BYTES = 64 * 2**20
"""Bytes of the chunks that wait for the last chunk of their message. Those beyond are read again when it comes."""


class IncompleteMessageError(MagnetarError):
    """Chunks of a message are missing; the text names the message and the position of its last chunk."""


class Assembly:
    """The chunks of the entries of one range."""

    def __init__(self, find: Callable[[Stored], Chunks | None], *, fail_on_data_loss: bool) -> None:
        """Put messages together; ``find`` returns the chunks before a last chunk, by index, as ``earlier_chunks``.

        A message without some of its chunks raises IncompleteMessageError or, without ``fail_on_data_loss``, is left
        out.
        """
        self._find = find
        self._fail = fail_on_data_loss
        self._pending: OrderedDict[str, dict[int, Stored]] = OrderedDict()
        self._size = 0
        """Bytes of the pending chunks."""

    def whole(self, entries: Iterable[Stored]) -> list[Stored]:
        """Return the entries with each last chunk replaced by the whole message, and without the other chunks.

        Raises RemoteProtocolError for a message of more than WHOLE_SIZE_MAX bytes, IncompleteMessageError, and as
        ``find``.
        """
        found = []
        for stored in entries:
            one = self._taken(stored) if stored.metadata.num_chunks_from_msg > 1 else stored
            if one is not None:
                found.append(one)
        return found

    def _taken(self, stored: Stored) -> Stored | None:
        """Return the message if ``stored`` is its last chunk."""
        metadata = stored.metadata
        _check(stored)
        chunks = self._forget(metadata.uuid)
        if metadata.chunk_id == 0:
            chunks = {}
        chunks[metadata.chunk_id] = stored
        if not is_last(metadata):
            self._remember(metadata.uuid, chunks)
            return None
        if len(chunks) < metadata.num_chunks_from_msg:
            found = self._find(stored)
            if found is None:
                return None
            chunks = {**found, metadata.chunk_id: stored}
        missing = metadata.num_chunks_from_msg - len(chunks)
        if not missing:
            return _joined(chunks)
        if self._fail:
            message = (
                f"message {metadata.uuid} at {stored.position}: {missing} of {metadata.num_chunks_from_msg} chunks "
                "were deleted, or are too far before the last one\nhint: failOnDataLoss=false leaves it out"
            )
            raise IncompleteMessageError(message)
        return None

    def _remember(self, uuid: str, chunks: dict[int, Stored]) -> None:
        self._pending[uuid] = chunks
        self._size += _size(chunks)
        while self._size > PENDING_BYTES:
            self._size -= _size(self._pending.popitem(last=False)[1])

    def _forget(self, uuid: str) -> dict[int, Stored]:
        chunks = self._pending.pop(uuid, {})
        self._size -= _size(chunks)
        return chunks


def earlier_chunks(last: Stored, before: Iterable[Stored]) -> Chunks | None:
    """Return the chunks of a message among the entries before its last chunk, by index.

    None if the message is complete without ``last``, which is a repetition then.
    """
    found: dict[int, Stored] = {}
    for stored in before:
        metadata = stored.metadata
        if metadata.num_chunks_from_msg > 1 and metadata.uuid == last.metadata.uuid:
            if metadata.chunk_id == 0:
                found = {}
            found[metadata.chunk_id] = stored
    return None if last.metadata.chunk_id in found else found


def is_last(metadata: pb.MessageMetadata) -> bool:
    """Return whether the chunk is the last one of its message."""
    return metadata.chunk_id == metadata.num_chunks_from_msg - 1


def _check(chunk: Stored) -> None:
    metadata = chunk.metadata
    if metadata.total_chunk_msg_size > WHOLE_SIZE_MAX:
        size = metadata.total_chunk_msg_size
        message = f"entry {chunk.position}: message of {size} bytes exceeds the limit of {WHOLE_SIZE_MAX}"
        raise RemoteProtocolError(message)
    if not 0 <= metadata.chunk_id < metadata.num_chunks_from_msg:
        message = f"entry {chunk.position}: chunk {metadata.chunk_id} of {metadata.num_chunks_from_msg}"
        raise RemoteProtocolError(message)


def _joined(chunks: Chunks) -> Stored:
    last = chunks[len(chunks) - 1]
    metadata = pb.MessageMetadata()
    metadata.CopyFrom(last.metadata)
    for field in ("uuid", "chunk_id", "num_chunks_from_msg", "total_chunk_msg_size"):
        metadata.ClearField(field)
    payload = b"".join(payload_of(chunks[index].entry) for index in range(len(chunks)))
    return Stored(last.position, metadata, build_entry(metadata, payload), chunks[0].position)


def _size(chunks: Chunks) -> int:
    return sum(len(chunk.entry) for chunk in chunks.values())
