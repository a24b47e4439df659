"""Progress as bytes: markers for other clusters, and attachments for the cursor that persists it.

A marker has a size limit, so a large state goes out in several parts. Each part is a state by itself with the epoch
and all the starts: parts may arrive alone, twice and in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.base.errors import CorruptionError, RemoteProtocolError
from magnetar.base.position import EARLIEST, Position
from magnetar.geo.epochs import Epoch
from magnetar.geo.progress import SubscriptionProgress
from magnetar.wire.ack_set import int_to_words, words_to_int
from magnetar.wire.proto import magnetar_markers_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PROGRESS_MARKER_BYTES_MAX = 1024 * 1024
"""Bytes of one marker's payload, well below the largest message that Pulsar lets through."""

_POSITION_BYTES_MAX = 24  # two 64-bit varints of 10 bytes with their tags, a tag and a length
_WORD_BYTES_MAX = 11  # a 64-bit varint with its tag


class ProgressReport(NamedTuple):
    """One decoded marker."""

    source_cluster: str
    states: list[SubscriptionProgress]
    oldest_acknowledged_at_ms: int | None  # by the sender's clock


def encode_markers(
    source_cluster: str,
    states: Iterable[SubscriptionProgress],
    *,
    full: bool = False,
    oldest_acknowledged_at_ms: int | None = None,
    bytes_max: int = PROGRESS_MARKER_BYTES_MAX,
) -> list[bytes]:
    """The payloads of as many markers as it takes, each of at most ``bytes_max`` bytes.

    Only the starts of one subscription and the name of one cluster are never split: a single item is sent even when
    it alone is larger. ``full`` says that ``states`` are whole states and not deltas.
    """
    markers: list[bytes] = []
    head = pb.ProgressMarker(source_cluster=source_cluster, oldest_acknowledged_at_ms=oldest_acknowledged_at_ms)
    marker, room = pb.ProgressMarker(), 0
    for state in states:
        for part in _parts(state, full=full, bytes_max=bytes_max - head.ByteSize() - 8):
            size = part.ByteSize() + 8  # with its tag and length
            if size > room:
                if marker.subscriptions:
                    markers.append(marker.SerializeToString())
                marker = pb.ProgressMarker()
                marker.CopyFrom(head)
                room = bytes_max - head.ByteSize()
            marker.subscriptions.append(part)
            room -= size
    if marker.subscriptions:
        markers.append(marker.SerializeToString())
    return markers


def decode_marker(payload: bytes) -> ProgressReport:
    """Read a marker; raises RemoteProtocolError when it makes no sense."""
    try:
        marker = pb.ProgressMarker.FromString(payload)
        states = [_from_message(message) for message in marker.subscriptions]
    except (DecodeError, ValueError) as error:
        message = f"progress marker cannot be read: {error}"
        raise RemoteProtocolError(message) from error
    oldest = marker.oldest_acknowledged_at_ms if marker.HasField("oldest_acknowledged_at_ms") else None
    return ProgressReport(marker.source_cluster, states, oldest)


def encode_state(state: SubscriptionProgress) -> bytes:
    """The bytes of a state or delta, to attach to its cursor; merging them in order restores the state."""
    (message,) = _parts(state, full=False, bytes_max=None)
    return message.SerializeToString()


def decode_state(data: bytes) -> SubscriptionProgress:
    """Read what ``encode_state`` wrote; raises CorruptionError for anything else."""
    try:
        return _from_message(pb.SubscriptionProgress.FromString(data))
    except (DecodeError, ValueError) as error:
        message = f"persisted progress cannot be read: {error}"
        raise CorruptionError(message) from error


def restore_state(attachments: Iterable[bytes]) -> SubscriptionProgress | None:
    """The state whose checkpoint and deltas a cursor hands back, oldest first; None when there are none."""
    state: SubscriptionProgress | None = None
    for attachment in attachments:
        part = decode_state(attachment)
        if state is None:
            state = part
        else:
            state.merge(part)
    return state


class _Part:
    """A part being filled: the message, and an upper bound of its size."""

    def __init__(self, state: SubscriptionProgress, starts: Mapping[str, Position], *, full: bool) -> None:
        self.message = pb.SubscriptionProgress(subscription=state.name, full=full, deleted=state.deleted)
        self.message.epoch.counter, self.message.epoch.cluster = state.epoch
        self._origins: dict[str, pb.OriginProgress] = {}
        for cluster in starts:
            _fill(self.origin(cluster).start, starts[cluster])
        self.size = self.message.ByteSize() + 8 * len(self._origins)
        self.empty = True

    def origin(self, cluster: str) -> pb.OriginProgress:
        origin = self._origins.get(cluster)
        if origin is None:
            origin = self._origins[cluster] = self.message.origins.add(cluster=cluster)
        return origin


def _parts(state: SubscriptionProgress, *, full: bool, bytes_max: int | None) -> Iterator[pb.SubscriptionProgress]:
    """Cut a state into parts that each stand alone; without ``bytes_max`` there is one."""
    starts = state.starts()
    part = _Part(state, starts, full=full)
    for cluster, item in _items(state):
        size = _size(cluster, item)
        if bytes_max is not None and not part.empty and part.size + size > bytes_max:
            yield part.message
            part = _Part(state, starts, full=full)
        part.size += size
        part.empty = False
        target = part.origin(cluster)
        if isinstance(item, pb.Interval):
            target.acknowledged.append(item)
        else:
            target.partial.append(item)
    yield part.message


def _items(state: SubscriptionProgress) -> Iterator[tuple[str, pb.Interval | pb.PartialBatch]]:
    for cluster, origin in state.origins.items():
        for lower, upper in origin.acknowledged:
            interval = pb.Interval()
            _fill(interval.lower, lower)
            _fill(interval.upper, upper)
            yield cluster, interval
        for position, remaining in origin.partial:
            batch = pb.PartialBatch(remaining=int_to_words(remaining))
            _fill(batch.position, position)
            yield cluster, batch


def _size(cluster: str, item: pb.Interval | pb.PartialBatch) -> int:
    """At most this many bytes more for one item, its origin's name counted as if it came first."""
    words = len(item.remaining) if isinstance(item, pb.PartialBatch) else 0
    return 2 * _POSITION_BYTES_MAX + words * _WORD_BYTES_MAX + len(cluster.encode()) + 16


def _fill(message: pb.OriginPosition, position: Position) -> None:
    message.ledger_id, message.entry_id = position


def _position(message: pb.OriginPosition) -> Position:
    return Position(message.ledger_id, message.entry_id)


def _from_message(message: pb.SubscriptionProgress) -> SubscriptionProgress:
    """Raises ValueError for what no state can hold."""
    starts = {origin.cluster: _position(origin.start) for origin in message.origins if origin.HasField("start")}
    epoch = Epoch(message.epoch.counter, message.epoch.cluster)
    state = SubscriptionProgress(message.subscription, starts, epoch, deleted=message.deleted)
    for origin in message.origins:
        progress = state.origin(origin.cluster)
        for interval in origin.acknowledged:
            lower, upper = _position(interval.lower), _position(interval.upper)
            if not EARLIEST <= lower < upper:
                text = f"({lower}..{upper}] is not an interval"
                raise ValueError(text)
            progress.acknowledge(lower, upper)
        for batch in origin.partial:
            remaining = words_to_int(batch.remaining)
            if remaining:
                progress.narrow(_position(batch.position), remaining)
    return state
