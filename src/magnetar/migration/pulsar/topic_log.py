"""Which cluster published each entry of a topic's log, and the same acknowledgements in two logs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from magnetar.base.position import EARLIEST, Position
from magnetar.geo.origins.index import OriginIndex
from magnetar.geo.origins.intervals import Interval, IntervalSet
from magnetar.wire.entries.origin import Origin, is_stamped, origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from magnetar.wire.proto import pulsar_api_pb2 as pb

    Claims = Mapping[str, IntervalSet]
    """Acknowledged entries: for each cluster that published some, in positions of that cluster."""


class TopicLog:
    """The entries of a topic in one cluster, as far as they were read. Links carry them to another cluster."""

    def __init__(self, cluster: str, other: str, start: Position) -> None:
        """Begin after ``start``, up to which all subscriptions have acknowledged everything.

        Links carry what is published in ``cluster`` to ``other``.
        """
        self.cluster = cluster
        self.start = start
        self.end = start
        """The last entry that was read."""
        self.own_end: Position | None = None
        """The last one that the cluster published for the other."""
        self.withheld: list[Position] = []
        """Entries that the other cluster does not have, or whose place there is unknown."""
        self.sizes: dict[Position, int] = {}
        """Number of messages of each batch."""
        self._other = other
        self._index = OriginIndex(cluster)

    def add(self, position: Position, metadata: pb.MessageMetadata) -> None:
        """Note the next entry that a reader receives. Raises RequestError for an invalid stamp."""
        self.end = position
        if metadata.HasField("marker_type"):
            return
        if metadata.num_messages_in_batch > 1:
            self.sizes[position] = metadata.num_messages_in_batch
        origin = self._origin(position, metadata)
        last = None if origin is None else self._index.last_position(origin.cluster)
        if origin is None or (last is not None and origin.position <= last):
            self.withheld.append(position)
            return
        floor = None if origin.floor == EARLIEST else origin.floor  # the pipeline states none for Apache Pulsar
        self._index.append(origin.cluster, origin.position, 1, position, floor)
        if origin.cluster == self.cluster:
            self.own_end = position

    def claims(self, acknowledged: IntervalSet, all_through: Mapping[str, Position]) -> dict[str, IntervalSet]:
        """Return which entries of each cluster are acknowledged by a subscription.

        ``acknowledged`` has positions of the log, all through ``start`` among them. ``all_through`` has the last entry
        of clusters whose entries have all arrived. If the log has none of them after ``start``, all are acknowledged.
        """
        found = {self.cluster: acknowledged}
        for cluster in self._index.clusters():
            if cluster != self.cluster:
                found[cluster] = IntervalSet.from_pairs(self._claimed(cluster, acknowledged))
        for cluster, last in all_through.items():
            if cluster not in found and last > EARLIEST:
                found[cluster] = IntervalSet.from_pairs([(EARLIEST, last)])
        return found

    def _claimed(self, cluster: str, acknowledged: IntervalSet) -> Iterator[tuple[Position, Position]]:
        first = next(self._index.own_extents(EARLIEST, self.end, cluster))
        if first.floor > EARLIEST:
            yield EARLIEST, first.floor  # entries before ``start``
        for lower, upper in acknowledged:
            for extent in self._index.own_extents(lower, upper, cluster):
                yield extent.floor, extent.origin_last

    def unacknowledged(self, claims: Claims, acknowledged_before: IntervalSet) -> list[Interval]:
        """Return the entries that are not acknowledged by ``claims``, ascending, each interval in one ledger.

        Of withheld entries, those that are in ``acknowledged_before``, in positions of the log, stay acknowledged.
        """
        found = [_only(each) for each in self.withheld if each not in acknowledged_before]
        for cluster in self._index.clusters():
            last = self._index.last_position(cluster)
            assert last is not None, cluster
            for lower, upper in claims.get(cluster, IntervalSet()).missing(EARLIEST, last):
                held = self._index.to_local(cluster, lower, upper)
                found += [Interval(_only(first).lower, end) for first, end in held]
        return sorted(found)

    def left(self, acknowledged: IntervalSet) -> Left:
        """Return what a subscription has not acknowledged; ``acknowledged`` has positions of the log."""
        found = self.unacknowledged(self.claims(acknowledged, {}), acknowledged)
        withheld = [each for each in self.withheld if each not in acknowledged]
        return Left(_count(found) - len(withheld), withheld)

    def origin_of(self, position: Position) -> tuple[str, Position]:
        """Return the cluster that published an entry, and its position there."""
        return self._index.origin_of(position) or (self.cluster, position)

    def local_of(self, cluster: str, position: Position) -> Position | None:
        """Return the place of an entry in the log; None if it is not there, or was not read."""
        return self._index.local_of(cluster, position)

    def _origin(self, position: Position, metadata: pb.MessageMetadata) -> Origin | None:
        if not metadata.HasField("replicated_from"):
            is_withheld = metadata.replicate_to and self._other not in metadata.replicate_to
            return None if is_withheld else Origin(self.cluster, position)
        origin = origin_of(metadata) if is_stamped(metadata) else None
        return None if origin is None or origin.cluster == self.cluster else origin


class Left(NamedTuple):
    """The unacknowledged entries of a subscription."""

    carried: int
    """Number of those that the other cluster has, too."""
    withheld: list[Position]
    """The others."""


class Batch(NamedTuple):
    """A partly acknowledged batch."""

    remaining: int
    """Bits of the unacknowledged messages."""
    messages: int


class State(NamedTuple):
    """The acknowledgements of a subscription, in positions of one cluster."""

    acknowledged: IntervalSet
    unacknowledged: list[Interval]
    """The other entries, each interval in one ledger."""
    batches: dict[Position, Batch]
    withheld: int
    """Number of unacknowledged entries that the other cluster does not have."""

    @property
    def left(self) -> int:
        """Number of unacknowledged entries."""
        return _count(self.unacknowledged)

    @property
    def through(self) -> Position:
        """The mark-delete position: all entries up to it are acknowledged."""
        return next(iter(self.acknowledged)).upper if self.acknowledged else EARLIEST

    @property
    def first(self) -> Position | None:
        """The first unacknowledged entry; None if there is none."""
        return _next(self.unacknowledged[0].lower) if self.unacknowledged else None

    def is_behind(self, other: IntervalSet) -> bool:
        """Return whether something is not acknowledged that ``other`` has acknowledged."""
        return any(other.within(lower, upper) for lower, upper in self.unacknowledged)


def translated(
    acknowledged: IntervalSet,
    partly: Mapping[Position, int],
    log: TopicLog,
    there: TopicLog,
    present: IntervalSet,
    end: Position,
) -> State:
    """Return the state of a subscription in the cluster of ``there``, from the one in the cluster of ``log``.

    ``partly`` has the remaining bits of partly acknowledged batches. ``present`` is the present state in the cluster of
    ``there``, and ``end`` the last entry of its log, markers included, which count as acknowledged.
    """
    through = {} if there.own_end is None else {there.cluster: there.own_end}
    unacknowledged = there.unacknowledged(log.claims(acknowledged, through), present)
    wanted = IntervalSet.from_pairs([(EARLIEST, end)]) if end > EARLIEST else IntervalSet()
    batches: dict[Position, Batch] = {}
    for position, remaining in partly.items():
        place = there.local_of(*log.origin_of(position))
        if place is not None and place in there.sizes:
            batches[place] = Batch(remaining, there.sizes[place])
    withheld = sum(each not in present for each in there.withheld)
    return State(wanted.subtract(IntervalSet.from_pairs(unacknowledged)), unacknowledged, batches, withheld)


def existing(intervals: IntervalSet, entries: Mapping[int, int]) -> Iterator[Position]:
    """Yield the entries in intervals; ``entries`` has the number of entries of each ledger."""
    for lower, upper in intervals:
        for ledger, count in sorted(entries.items()):
            if lower.ledger_id <= ledger <= upper.ledger_id:
                first = lower.entry_id + 1 if ledger == lower.ledger_id else 0
                stop = min(count, upper.entry_id + 1) if ledger == upper.ledger_id else count
                yield from (Position(ledger, entry) for entry in range(first, stop))


def _count(intervals: Iterable[Interval]) -> int:
    """Return the number of entries in intervals, each of which is in one ledger and has no gaps."""
    return sum(upper.entry_id - lower.entry_id for lower, upper in intervals)


def _only(position: Position) -> Interval:
    return Interval(Position(position.ledger_id, position.entry_id - 1), position)


def _next(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id + 1)
