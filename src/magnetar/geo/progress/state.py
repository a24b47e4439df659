"""The acknowledgements of a replicated subscription in origin positions, as a state that merges by union.

For each origin cluster the state has intervals of acknowledged positions, and the remaining bits of partly acknowledged
batches. Union and AND are commutative, associative and idempotent: states may be lost, repeated, reordered, split into
parts, or come from several clusters at once, and all clusters converge. A delta is a state with fewer entries.
Acknowledgements of entries that have not arrived are kept, and take effect at the arrival.

The **start** of the subscription in each origin is separate from the acknowledgements: entries at or below the start
are outside of the subscription, neither delivered nor claimed. An origin without a start is subscribed from its first
entry. That includes an origin without entries at the time when the subscription was created at the latest position,
because all of its entries arrive later. Every part of a state has all starts, so that no part can be mistaken for a
subscription that starts elsewhere.

Only an epoch can undo acknowledgements: a higher one replaces the whole state. If parts of a new state are lost,
acknowledgements are missing: messages are delivered again, and none is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from magnetar.base.position import EARLIEST, Position
from magnetar.cursor.partials import PartialBatches
from magnetar.geo.origins.index import Claim, PartialClaim
from magnetar.geo.origins.intervals import Interval, IntervalSet
from magnetar.geo.progress.epochs import FIRST_EPOCH, Epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Kind(Enum):
    """The result of a merge."""

    IGNORED = "ignored"  # the other state is older; its sender needs ours
    MERGED = "merged"  # equal epochs: united
    REPLACED = "replaced"  # newer epoch: the local state is replaced
    DELETED = "deleted"  # newer tombstone: the subscription is deleted


@dataclass(frozen=True, slots=True)
class Outcome:
    """The changes of a merge. If ``rebuild`` is set, the cursor must be rebuilt from the whole state."""

    kind: Kind
    news: list[Claim] = field(default_factory=list)  # newly acknowledged
    partial_news: list[PartialClaim] = field(default_factory=list)  # batches with fewer remaining messages
    reopened: list[Claim] = field(default_factory=list)  # newly inside the subscription

    @property
    def rebuild(self) -> bool:
        """Return whether entries may have become unacknowledged."""
        return self.kind is Kind.REPLACED or bool(self.reopened)

    @property
    def changed(self) -> bool:
        """Return whether the state has changed and must be persisted."""
        return self.kind in (Kind.REPLACED, Kind.DELETED) or bool(self.news or self.partial_news or self.reopened)


class OriginProgress:
    """The acknowledged entries of one origin, and the start of the subscription in it."""

    __slots__ = ("acknowledged", "partial", "start")

    def __init__(self, start: Position = EARLIEST) -> None:
        """Begin without acknowledgements; ``start`` is exclusive."""
        self.start = start
        self.acknowledged = IntervalSet()
        self.partial = PartialBatches()  # only positions outside of acknowledged

    def acknowledge(self, lower: Position, upper: Position) -> list[Interval]:
        """Add ``(lower, upper]``; return the newly acknowledged parts."""
        added = self.acknowledged.add(lower, upper)
        if self.partial:
            for part_lower, part_upper in added:
                self.partial.discard(part_lower, part_upper)
        return added

    def acknowledge_all(self, intervals: IntervalSet) -> list[Interval]:
        """Add many intervals; return the newly acknowledged parts."""
        added = self.acknowledged.update(intervals)
        if self.partial:
            for lower, upper in added:
                self.partial.discard(lower, upper)
        return added

    def copy(self) -> OriginProgress:
        """Return a copy without shared mutable state."""
        made = OriginProgress(self.start)
        made.acknowledged, made.partial = self.acknowledged.copy(), self.partial.copy()
        return made

    def narrow(self, position: Position, remaining: int) -> int | None:
        """Acknowledge messages of a batch; return the remaining bits, or None if nothing changed."""
        return None if position in self.acknowledged else self.partial.narrow(position, remaining)

    def is_untouched_after(self, lower: Position) -> bool:
        """Return whether no message after ``lower`` is acknowledged or outside of the subscription."""
        last = self.acknowledged.last
        return self.start <= lower and not self.partial and (last is None or last <= lower)

    def covered(self, lower: Position, upper: Position) -> list[Interval]:
        """Return the parts of ``(lower, upper]`` not to be delivered: outside the subscription, or acknowledged."""
        if lower >= self.start:
            return self.acknowledged.within(lower, upper)
        if upper <= self.start:
            return [Interval(lower, upper)]
        return [Interval(lower, self.start), *self.acknowledged.within(self.start, upper)]


class SubscriptionProgress:
    """The state of one replicated subscription in one cluster, or a received part of such a state."""

    __slots__ = ("deleted", "epoch", "name", "origins")

    def __init__(
        self,
        name: str,
        starts: Mapping[str, Position] | None = None,
        epoch: Epoch = FIRST_EPOCH,
        *,
        deleted: bool = False,
    ) -> None:
        """Begin without acknowledgements; ``starts`` has the exclusive start of each origin, absent for none.

        A subscription created here after its deletion has ``epoch`` = the tombstone's ``created_after()``.
        """
        self.name = name
        self.epoch = epoch
        self.deleted = deleted  # a tombstone: no origins, only the epoch
        self.origins: dict[str, OriginProgress] = {}
        for cluster, start in (starts or {}).items():
            self.origin(cluster).start = start

    def origin(self, cluster: str) -> OriginProgress:
        """Return the progress of the entries of ``cluster``; create it without a start if necessary."""
        origin = self.origins.get(cluster)
        if origin is None:
            origin = self.origins[cluster] = OriginProgress()
        return origin

    def starts(self) -> dict[str, Position]:
        """Return the exclusive start of each origin; absent if the subscription starts at its first entry."""
        return {cluster: origin.start for cluster, origin in self.origins.items() if origin.start != EARLIEST}

    def __eq__(self, other: object) -> bool:
        """Return whether both states are equal."""
        if not isinstance(other, SubscriptionProgress):
            return NotImplemented
        return self._comparable() == other._comparable()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _comparable(self) -> tuple[object, ...]:
        origins = {
            cluster: (origin.start, list(origin.acknowledged), list(origin.partial))
            for cluster, origin in self.origins.items()
            if origin.start != EARLIEST or origin.acknowledged or origin.partial
        }
        return self.name, self.epoch, self.deleted, origins

    # --- local changes ---------------------------------------------------------------------------------------------

    def claim(self, claims: Iterable[Claim], partials: Iterable[PartialClaim] = ()) -> SubscriptionProgress | None:
        """Record local acknowledgements; return the new part, or None if there is none.

        Claims at or below a start are dropped, because no client acknowledged those entries. A batch without remaining
        messages counts as acknowledged.
        """
        assert not self.deleted, f"{self.name} was deleted in epoch {self.epoch}"
        news = Outcome(Kind.MERGED)
        for cluster, pairs in _by_cluster(claims).items():
            start = self.origin(cluster).start
            inside = [(max(lower, start), upper) for lower, upper in pairs if start < upper]
            if len(inside) == 1:
                self._acknowledge(cluster, *inside[0], news)
            else:
                self._acknowledge_all(cluster, IntervalSet.from_pairs(inside), news)
        for cluster, position, remaining in partials:
            if self.origin(cluster).start < position:
                self._narrow(cluster, position, remaining, news)
        return self._part(news) if news.changed else None

    def reseek(self, local_cluster: str, origins: Mapping[str, OriginProgress]) -> None:
        """Apply the result of ``sought`` in a new epoch raised by ``local_cluster``: a local seek or reset."""
        self.epoch = self.epoch.raised_by(local_cluster)
        self.origins = dict(origins)

    def tombstone(self, local_cluster: str) -> SubscriptionProgress:
        """Delete the subscription locally; return the tombstone, which has only a newer epoch."""
        return SubscriptionProgress(self.name, epoch=self.epoch.raised_by(local_cluster), deleted=True)

    # --- remote changes --------------------------------------------------------------------------------------------

    def merge(self, incoming: SubscriptionProgress) -> Outcome:
        """Merge a state of the same subscription from another cluster, whole or in part.

        Afterwards this state shares nothing with ``incoming``.
        """
        assert incoming.name == self.name, (incoming.name, self.name)
        if incoming.epoch < self.epoch:
            return Outcome(Kind.IGNORED)
        if incoming.epoch > self.epoch:
            self.epoch, self.deleted, self.origins = incoming.epoch, incoming.deleted, {}
            if self.deleted:
                return Outcome(Kind.DELETED)
            for cluster, start in incoming.starts().items():
                self.origin(cluster).start = start
            outcome = Outcome(Kind.REPLACED)
        else:
            outcome = Outcome(Kind.MERGED)
            if self.deleted or incoming.deleted:  # a raised epoch has one author, so both are tombstones
                return outcome
            self._earlier_starts(incoming, outcome)
        for cluster, origin in incoming.origins.items():
            if not self.origin(cluster).acknowledged.has_all_of(origin.acknowledged):
                self._acknowledge_all(cluster, origin.acknowledged, outcome)
            for position, remaining in origin.partial:
                self._narrow(cluster, position, remaining, outcome)
        return outcome

    def _earlier_starts(self, incoming: SubscriptionProgress, outcome: Outcome) -> None:
        """Use the earlier start in each origin, for subscriptions that were created independently."""
        for cluster, origin in self.origins.items():
            theirs = incoming.origins.get(cluster)
            start = theirs.start if theirs is not None else EARLIEST
            if start < origin.start:
                outcome.reopened.append(Claim(cluster, start, origin.start))
                origin.start = start

    def _acknowledge(self, cluster: str, lower: Position, upper: Position, outcome: Outcome) -> None:
        outcome.news.extend(Claim(cluster, *part) for part in self.origin(cluster).acknowledge(lower, upper))

    def _acknowledge_all(self, cluster: str, intervals: IntervalSet, outcome: Outcome) -> None:
        outcome.news.extend(Claim(cluster, *part) for part in self.origin(cluster).acknowledge_all(intervals))

    def _narrow(self, cluster: str, position: Position, remaining: int, outcome: Outcome) -> None:
        left = self.origin(cluster).narrow(position, remaining)
        if left == 0:
            self._acknowledge(cluster, Position(position.ledger_id, position.entry_id - 1), position, outcome)
        elif left is not None:
            outcome.partial_news.append(PartialClaim(cluster, position, left))

    def _part(self, news: Outcome) -> SubscriptionProgress:
        """Return a state of the same epoch and starts with only the acknowledgements of ``news``."""
        part = SubscriptionProgress(self.name, self.starts(), self.epoch)
        for cluster, pairs in _by_cluster(news.news).items():
            part.origin(cluster).acknowledged = IntervalSet.from_pairs(pairs)
        for cluster, position, remaining in news.partial_news:
            part.origin(cluster).narrow(position, remaining)
        return part

    def copy(self) -> SubscriptionProgress:
        """Return a copy without shared mutable state."""
        copied = SubscriptionProgress(self.name, epoch=self.epoch, deleted=self.deleted)
        copied.origins = {cluster: origin.copy() for cluster, origin in self.origins.items()}
        return copied

    # --- queries ---------------------------------------------------------------------------------------------------

    def is_untouched_after(self, cluster: str, lower: Position) -> bool:
        """Return whether no message of ``cluster`` after ``lower`` is acknowledged or outside of the subscription."""
        origin = self.origins.get(cluster)
        return origin is None or origin.is_untouched_after(lower)

    def covered_in(self, cluster: str, lower: Position, upper: Position) -> list[Claim]:
        """Return the parts of an arriving run ``(lower, upper]`` not to deliver: not subscribed, or acknowledged."""
        origin = self.origins.get(cluster)
        return [Claim(cluster, *part) for part in origin.covered(lower, upper)] if origin is not None else []

    def partial_in(self, cluster: str, lower: Position, upper: Position) -> list[PartialClaim]:
        """Return the partly acknowledged batches of an arriving run ``(lower, upper]``."""
        origin = self.origins.get(cluster)
        if origin is None or not origin.partial:
            return []
        lower = max(lower, origin.start)
        return [PartialClaim(cluster, *record) for record in origin.partial.between(lower, upper)]

    def covered(self) -> Iterator[Claim]:
        """Yield everything that is not to be delivered."""
        for cluster, origin in self.origins.items():
            if origin.start > EARLIEST:
                yield Claim(cluster, EARLIEST, origin.start)
            for lower, upper in origin.acknowledged:
                yield Claim(cluster, lower, upper)

    def partials(self) -> Iterator[PartialClaim]:
        """Yield the partly acknowledged batches."""
        for cluster, origin in self.origins.items():
            for position, remaining in origin.partial:
                yield PartialClaim(cluster, position, remaining)

    @property
    def intervals(self) -> int:
        """Return the number of intervals over all origins."""
        return sum(len(origin.acknowledged) for origin in self.origins.values())


def _by_cluster(claims: Iterable[Claim]) -> dict[str, list[tuple[Position, Position]]]:
    pairs: dict[str, list[tuple[Position, Position]]] = {}
    for cluster, lower, upper in claims:
        pairs.setdefault(cluster, []).append((lower, upper))
    return pairs
