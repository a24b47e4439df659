"""The encoding of progress: markers for other clusters, and attachments for the cursor that persists it.

A marker has a size limit, so a large state is sent in several parts. Each part is a complete state with the epoch and
all starts, so that parts may arrive alone, repeatedly and in any order. They are built one at a time. They are small
enough that neither encoding nor decoding one blocks the event loop: a subscription with a million holes has a million
intervals.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby, islice, repeat
from operator import itemgetter, sub
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.base.errors import CorruptionError, RemoteProtocolError
from magnetar.base.limits import CLUSTER_NAME_LENGTH_MAX, MARKER_SIZE_MAX, Limit
from magnetar.base.names import is_longer, too_long
from magnetar.base.position import EARLIEST, LONG_MAX, Position
from magnetar.geo.origins.intervals import IntervalSet
from magnetar.geo.progress.epochs import EPOCH_COUNTER_MAX, Epoch
from magnetar.geo.progress.state import SubscriptionProgress
from magnetar.wire.entries.ack_set import int_to_words, words_to_int
from magnetar.wire.proto import magnetar_markers_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

PROGRESS_MARKER_BYTES_MAX = 256 * 1024
"""Maximum size of one marker's payload in bytes, well below Pulsar's limit: at least some 5,000 intervals, usually
more.
"""

PROGRESS_MARKER_PARTS_MAX = 25_000
"""Maximum number of ledgers and interval bounds in a received marker; other elements count as several of them.

``encode_markers`` stays below it. Decoding that many takes 25 to 100 ms.
"""

BOUNDS_AT_ONCE = 5_000
"""Bounds of intervals, or partly acknowledged batches, that are read in one step, some 1 to 2 ms."""

_PARTS_OF_STATE: Final = 2
"""Parts for which a subscription, an origin or a life counts."""

_PARTS_OF_BATCH: Final = 3
"""Parts for which a partly acknowledged batch counts."""

_POSITION_BYTES_MAX = 24  # two 64-bit varints of 10 bytes with their tags, a tag and a length
_INTERVAL_BYTES_MAX = 2 * 26  # two bounds, each alone in its ledger: the same and one more length
_UNBOUNDED: Final = 1 << 62
_WORD_BYTES_MAX = 11  # a 64-bit varint with its tag


class ProgressReport(NamedTuple):
    """A decoded marker."""

    source_cluster: str
    states: list[SubscriptionProgress]
    oldest_acknowledged_at_ms: int | None  # in the sender's clock
    lives: dict[str, str]
    """By cluster, the written form of the life of the positions; absent if the sender does not know it."""


def encode_markers(
    source_cluster: str,
    states: Iterable[SubscriptionProgress],
    *,
    full: bool = False,
    oldest_acknowledged_at_ms: int | None = None,
    lives: Mapping[str, str] = MappingProxyType({}),
    bytes_max: int = PROGRESS_MARKER_BYTES_MAX,
) -> Iterator[bytes]:
    """Yield the payloads of markers, each of at most ``bytes_max`` bytes, built one at a time.

    The starts of a subscription and the name of a cluster are never split; a single item above the limit is sent.
    ``full`` marks ``states`` as whole states instead of deltas; they must not change meanwhile. ``lives`` has the
    written form of the life of each cluster's positions.
    """
    head = pb.ProgressMarker(
        source_cluster=source_cluster,
        oldest_acknowledged_at_ms=oldest_acknowledged_at_ms,
        lives=[pb.ClusterLife(cluster=cluster, life=life) for cluster, life in lives.items()],
    )
    marker, room = pb.ProgressMarker(), 0
    for state in states:
        for part in _parts(state, full=full, bytes_max=bytes_max - head.ByteSize() - 8):
            size = part.size + 8  # including its tag and length
            if size > room:
                if marker.subscriptions:
                    yield marker.SerializeToString()
                marker = pb.ProgressMarker()
                marker.CopyFrom(head)
                room = bytes_max - head.ByteSize()
            marker.subscriptions.append(part.message)
            room -= size
    if marker.subscriptions:
        yield marker.SerializeToString()


def decode_marker(payload: bytes) -> ProgressReport:
    """Decode a marker; raises RemoteProtocolError for an invalid one."""
    if len(payload) > MARKER_SIZE_MAX:
        limit = Limit.MARKER_SIZE
        message = f"progress marker of {len(payload)} bytes exceeds the limit of {MARKER_SIZE_MAX} ({limit.value})"
        raise RemoteProtocolError(message, limit)
    try:
        marker = pb.ProgressMarker.FromString(payload)
        _check_parts(marker)
        _check_names(marker)
        states = [_from_message(message) for message in marker.subscriptions]
    except (DecodeError, ValueError) as error:
        message = f"progress marker cannot be read: {error}"
        raise RemoteProtocolError(message) from error
    oldest = marker.oldest_acknowledged_at_ms if marker.HasField("oldest_acknowledged_at_ms") else None
    return ProgressReport(marker.source_cluster, states, oldest, {each.cluster: each.life for each in marker.lives})


def _check_parts(marker: pb.ProgressMarker) -> None:
    """Raise RemoteProtocolError for a marker with too many parts, because decoding it would block the event loop."""
    parts = 0
    for count in _counts(marker):
        parts += count
        if parts > PROGRESS_MARKER_PARTS_MAX:
            limit = Limit.PROGRESS_MARKER_PARTS
            message = f"progress marker exceeds the limit of {PROGRESS_MARKER_PARTS_MAX} parts ({limit.value})"
            raise RemoteProtocolError(message, limit)


def _counts(marker: pb.ProgressMarker) -> Iterator[int]:
    """Yield the parts of each list, level by level, so that no element is read before its list is counted."""
    yield _PARTS_OF_STATE * (len(marker.subscriptions) + len(marker.lives))
    for state in marker.subscriptions:
        yield _PARTS_OF_STATE * len(state.origins)
    origins = [origin for state in marker.subscriptions for origin in state.origins]
    for origin in origins:
        yield len(origin.acknowledged) + _PARTS_OF_BATCH * len(origin.partial)
    for origin in origins:
        for ledger in origin.acknowledged:
            yield len(ledger.entry_steps)


def _check_names(marker: pb.ProgressMarker) -> None:
    """Raise RemoteProtocolError for a name that is not UTF-8, or too long for a cluster.

    Not applied to stored states, because earlier releases accepted such names.
    """
    states, lives = marker.subscriptions, marker.lives
    clusters = [marker.source_cluster, *(each.cluster for each in lives), *(state.epoch.cluster for state in states)]
    clusters += [origin.cluster for state in states for origin in state.origins]
    names: list[object] = [*clusters, *(state.subscription for state in states), *(each.life for each in lives)]
    if not all(isinstance(name, str) for name in names):  # protobuf returns bytes for invalid UTF-8
        message = "progress marker cannot be read: a name that is not UTF-8"
        raise RemoteProtocolError(message)
    if not all(state.subscription for state in states):
        message = "progress marker cannot be read: a subscription without a name"
        raise RemoteProtocolError(message)
    for name in dict.fromkeys(clusters):
        if is_longer(name, CLUSTER_NAME_LENGTH_MAX):
            limit = Limit.CLUSTER_NAME_LENGTH
            raise RemoteProtocolError(too_long("cluster", name, CLUSTER_NAME_LENGTH_MAX, limit), limit)


def encode_state(state: SubscriptionProgress) -> bytes:
    """Encode a state or delta for the attachment of its cursor; merging them in order restores the state."""
    (part,) = _parts(state, full=False, bytes_max=None)
    return part.message.SerializeToString()


def decode_state(data: bytes) -> SubscriptionProgress:
    """Decode the result of ``encode_state``; raises CorruptionError for anything else."""
    try:
        return _from_message(pb.SubscriptionProgress.FromString(data))
    except (DecodeError, ValueError) as error:
        raise _unreadable(error) from error


def restoring(attachments: Iterable[bytes]) -> Generator[None, None, SubscriptionProgress | None]:
    """Merge the attachments of a cursor, oldest first, into a state, in steps; return None if there are none.

    Raises CorruptionError for attachments that ``encode_state`` did not write.
    """
    state: SubscriptionProgress | None = None
    for attachment in attachments:
        try:
            message = pb.SubscriptionProgress.FromString(attachment)
            part = _state_of(message)
            yield from _filling(part, message)
        except (DecodeError, ValueError) as error:
            raise _unreadable(error) from error
        state = part if state is None else _merged(state, part)
        yield
    return state


def _merged(state: SubscriptionProgress, part: SubscriptionProgress) -> SubscriptionProgress:
    """Merge two states, neither of which is used any more; a small one is merged into a large one, which is fast."""
    if state.epoch < part.epoch:
        return part
    large, small = (part, state) if state.epoch == part.epoch and state.intervals < part.intervals else (state, part)
    large.merge(small)
    return large


class _Part:
    """A part under construction: the message, and an upper bound of its size."""

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

    def take(self, cluster: str, size: int) -> pb.OriginProgress:
        """Return the message for items of at most ``size`` bytes."""
        self.size += size + (0 if cluster in self._origins else len(cluster.encode()) + 16)
        self.empty = False
        return self.origin(cluster)


def _parts(state: SubscriptionProgress, *, full: bool, bytes_max: int | None) -> Iterator[_Part]:
    """Split a state into parts that are complete states; without ``bytes_max`` there is one part."""
    starts = state.starts()
    part = _Part(state, starts, full=full)

    def room_for(cluster: str, size: int) -> int:
        """Return how many items of ``size`` bytes fit into the part, at least 1; start a new part if necessary."""
        if bytes_max is None:
            return _UNBOUNDED
        return max(int(part.empty), (bytes_max - part.size - len(cluster.encode()) - 16) // size)

    for cluster, origin in state.origins.items():
        first = 0
        while first < len(origin.acknowledged):
            stop = min(len(origin.acknowledged), first + room_for(cluster, _INTERVAL_BYTES_MAX))
            if stop == first:
                yield part
                part = _Part(state, starts, full=full)
                continue
            _add_bounds(
                part.take(cluster, (stop - first) * _INTERVAL_BYTES_MAX), origin.acknowledged.bounds(first, stop)
            )
            first = stop
        for position, remaining in origin.partial:
            batch = pb.PartialBatch(remaining=int_to_words(remaining))
            _fill(batch.position, position)
            size = _POSITION_BYTES_MAX + 8 + len(batch.remaining) * _WORD_BYTES_MAX
            if not room_for(cluster, size):
                yield part
                part = _Part(state, starts, full=full)
            part.take(cluster, size).partial.append(batch)
    yield part


def _add_bounds(target: pb.OriginProgress, bounds: list[Position]) -> None:
    for ledger_id, positions in groupby(bounds, itemgetter(0)):
        entry_ids = [entry_id for _, entry_id in positions]
        ledger = target.acknowledged.add(ledger_id=ledger_id)
        ledger.entry_steps.extend(map(sub, entry_ids, chain((-1,), entry_ids)))


def _reading_bounds(message: pb.OriginProgress, bounds: list[Position]) -> Iterator[None]:
    """Append the bounds of all intervals, in steps; raises ValueError unless they ascend."""
    for ledger in message.acknowledged:
        entry_ids = islice(accumulate(ledger.entry_steps, initial=-1), 1, None)
        positions = map(Position, repeat(ledger.ledger_id), entry_ids)
        while read := list(islice(positions, BOUNDS_AT_ONCE)):
            if read[-1].entry_id > LONG_MAX:
                text = f"an entry id beyond {LONG_MAX}"
                raise ValueError(text)
            bounds += read
            yield


def _fill(message: pb.OriginPosition, position: Position) -> None:
    message.ledger_id, message.entry_id = position


def _position(message: pb.OriginPosition) -> Position:
    return Position(message.ledger_id, message.entry_id)


def _from_message(message: pb.SubscriptionProgress) -> SubscriptionProgress:
    """Build a state from a message; raises ValueError for an invalid one."""
    state = _state_of(message)
    for _ in _filling(state, message):
        pass
    return state


def _state_of(message: pb.SubscriptionProgress) -> SubscriptionProgress:
    """Return the state of a message without its acknowledgements; raises ValueError."""
    starts = {origin.cluster: _position(origin.start) for origin in message.origins if origin.HasField("start")}
    epoch = Epoch(message.epoch.counter, message.epoch.cluster)
    if epoch.counter > EPOCH_COUNTER_MAX:
        text = f"epoch {epoch} is beyond {EPOCH_COUNTER_MAX}"
        raise ValueError(text)
    return SubscriptionProgress(message.subscription, starts, epoch, deleted=message.deleted)


def _filling(state: SubscriptionProgress, message: pb.SubscriptionProgress) -> Iterator[None]:
    """Add the acknowledgements of a message to its state, in steps; raises ValueError for invalid ones."""
    for origin in message.origins:
        progress = state.origin(origin.cluster)
        bounds: list[Position] = []
        yield from _reading_bounds(origin, bounds)
        if progress.acknowledged or (bounds and bounds[0] < EARLIEST):
            text = f"acknowledgements of {origin.cluster} that no state has"
            raise ValueError(text)
        progress.acknowledged = IntervalSet()
        yield from progress.acknowledged.filling(bounds, BOUNDS_AT_ONCE)
        for number, batch in enumerate(origin.partial, 1):
            remaining = words_to_int(batch.remaining)
            if remaining:
                progress.narrow(_position(batch.position), remaining)
            if number % BOUNDS_AT_ONCE == 0:
                yield


def _unreadable(error: Exception) -> CorruptionError:
    return CorruptionError(f"persisted progress cannot be read: {error}")
